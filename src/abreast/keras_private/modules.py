"""Names of Keras's modules: classes and functions in them are Keras's own, not the user's."""

from __future__ import annotations

# Each ends with a dot: `name.startswith(...)` then holds for modules inside the package only.
KERAS = "keras.src."
LAYERS = "keras.src.layers."
METRICS = "keras.src.metrics."
