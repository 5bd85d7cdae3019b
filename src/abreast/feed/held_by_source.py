"""A search for weights, values of a thread, and arrays of training data in the objects that a source or a callback holds.

Reads and changes of these cannot be noticed when they happen. Imports no framework.
"""

from __future__ import annotations

import bisect
import itertools
import sys
import threading
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from abreast.feed.reach import Reach, is_array

_bounds: Any = getattr(np, "byte_bounds", None) or np.lib.array_utils.byte_bounds  # the former before NumPy 2
# Methods of PyTorch's modules that lead to weights.
_PAST_KERAS = frozenset(
    ("parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "load_state_dict", "_value")
)


def held_by(source: Reach, model: Any) -> str:
    """A name, for a message, of such data that a source holds; "" if it holds none. `model`: the model in training, or None."""
    if any(isinstance(each, threading.local) and vars(each) for each in source.met.values()):
        return "values of the thread of the script (threading.local)"
    return "weights of the model in training" if model is not None and _weights_held(source, model) else ""


def _weights_held(source: Reach, model: Any) -> bool:
    """Whether a source's code holds the memory of a weight, or a part of the model and the name of a method that leads there."""
    layers = {id(each) for each in model._flatten_layers()}
    if not source.met.keys().isdisjoint(layers) and not _PAST_KERAS.isdisjoint(source.names):
        return True
    return _overlap(_arrays(source.met.values()), _arrays(each._value for each in model.variables))


def array_held(code: Reach, data: Any) -> bool:
    """Whether code holds the memory of an array of training data."""
    return _overlap(_arrays(code.met.values()), _arrays(keras.tree.flatten(data)))


def _overlap(arrays: list[Any], others: list[Any]) -> bool:
    """Whether the memory of one of `arrays`, which may be very many, can be that of one of `others`."""
    bounds = sorted(map(_bounds, others))
    ends = [*itertools.accumulate((end for _, end in bounds), max)]
    starts = [start for start, _ in bounds]
    for start, end in map(_bounds, arrays):
        before = bisect.bisect_left(starts, end)  # those that begin before this array ends
        if before and ends[before - 1] > start:
            return True
    return False


def _arrays(values: Iterable[Any]) -> list[Any]:
    """The arrays of NumPy among some values, and the tensors of PyTorch on the CPU as arrays of bytes that share their memory."""
    return [array for array in map(_as_array, values) if array is not None and array.size]


def _as_array(value: Any) -> Any:
    if isinstance(value, np.ndarray) or not is_array(value):
        return value if isinstance(value, np.ndarray) else None
    is_here = value.device.type == "cpu" and value.is_contiguous()
    return value.detach().view(-1).view(sys.modules["torch"].uint8).numpy() if is_here and value.numel() else None
