"""The size of a model's gradients in bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from keras import tree

_SIZES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def gradient_bytes(weights: Sequence[Any]) -> int:
    """Bytes of the gradients of `weights`. A gradient has the type of its weight."""
    return sum(math.prod(weight.shape) * _SIZES.get(weight.dtype, 4) for weight in tree.flatten(list(weights)))
