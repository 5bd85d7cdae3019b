"""The mask that Keras attaches to a tensor.

Up to 3.15 `keras.src.backend` has these names too; 3.16 has them here only.
"""

from __future__ import annotations

from keras.src.backend.common.masking import get_keras_mask, set_keras_mask

__all__ = ["get_keras_mask", "set_keras_mask"]
