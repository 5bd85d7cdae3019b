"""Stored images to pixels: crops, decoders, and the threads, processes and GPUs that decode."""
