"""Names of Keras's modules, to tell Keras's own classes and functions from the user's. Imports nothing."""

from __future__ import annotations

# Each ends with a dot: `name.startswith(...)` then holds for modules inside the package only.
KERAS = "keras.src."
LAYERS = "keras.src.layers."
METRICS = "keras.src.metrics."
