"""The time of each training step by part: the `Timeline` callback, its files, and device traces."""
