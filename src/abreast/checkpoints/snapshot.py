"""The content of a checkpoint in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Snapshot:
    """Tensors by name, in order, and plain values: None, bool, int, float, str, and lists and dicts of them.

    A name is any text, such as `optimizer/adam/iteration`. A scalar has the shape `()`. NaN, infinity and integers of any size
    are valid values.
    """

    tensors: Mapping[str, np.ndarray]
    values: Mapping[str, Any]
