"""Keeps pytest off the scripts: one is called `test_step.py`, and importing it would train a model."""

collect_ignore = ["scripts"]
