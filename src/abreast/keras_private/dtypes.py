"""The table by which Keras narrows 64-bit results."""

from __future__ import annotations

import keras
from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE

__all__ = ["BIT64_TO_BIT32_DTYPE", "keep_float64"]


def keep_float64() -> None:
    """Keep sums and means of float64 in float64, as on TensorFlow; otherwise Keras converts them to float32."""
    if keras.backend.backend() != "tensorflow":
        BIT64_TO_BIT32_DTYPE["float64"] = "float64"
