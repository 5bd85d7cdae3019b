"""The PyTorch backend: one process per device; the caller's process is rank 0."""
