"""What users do with a model, its variables and its optimizer outside of `fit`."""
