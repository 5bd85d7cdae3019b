"""A module of the user's that `cases.py` reads."""

scale = 1.0
