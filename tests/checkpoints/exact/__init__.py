"""Random scripts that are interrupted, and compared with the same ones that are not: see `exactness.py`."""
