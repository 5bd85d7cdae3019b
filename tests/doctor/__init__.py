"""The doctor: its rules on invented facts, whole diagnoses of planted causes, and the state after a diagnosis."""
