"""The doctor: its rules on made-up facts, whole diagnoses of planted causes, and what a diagnosis leaves behind."""
