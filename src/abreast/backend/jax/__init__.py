"""The JAX backend: one process, one compiled program over a mesh of devices."""
