"""Reading packed images: samples by number, and batches for training."""
