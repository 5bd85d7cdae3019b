"""Images to pixels: files, stored samples and crops of them, and the threads, processes and GPUs that decode batches."""
