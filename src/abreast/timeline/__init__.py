"""Where the time of each training step goes: the `Timeline` callback, its files, and device traces."""
