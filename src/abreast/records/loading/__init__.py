"""Batches for training: their order, the parts of images that they show, and how they are put together."""
