"""Samples taken during a training: the utilisation of GPUs and of the cores that this process uses."""
