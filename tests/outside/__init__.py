"""Uses of a model, its variables and its optimizer outside of `fit`."""
