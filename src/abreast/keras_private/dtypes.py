"""The table by which Keras narrows 64-bit results."""

from __future__ import annotations

import keras
from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE

__all__ = ["BIT64_TO_BIT32_DTYPE", "keep_float64"]


def keep_float64() -> None:
    """Let sums and means of float64 stay float64, as they do on TensorFlow; else Keras converts them to float32."""
    if keras.backend.backend() != "tensorflow":
        BIT64_TO_BIT32_DTYPE["float64"] = "float64"
