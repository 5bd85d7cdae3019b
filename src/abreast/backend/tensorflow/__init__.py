"""The TensorFlow backend: one process, one graph with a replica per device."""
