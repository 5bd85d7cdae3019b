"""Checkpoints: what a training needs to go on exactly where it was, on any number of devices."""
