"""The feed: what is read when, what a source's errors become, and what is left behind."""
