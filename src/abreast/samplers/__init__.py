"""Samples taken beside a training: utilisation of GPUs and of this process's cores."""
