"""The table by which Keras narrows 64-bit results; its entries may be changed in place."""

from __future__ import annotations

from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE

__all__ = ["BIT64_TO_BIT32_DTYPE"]
