"""Data that code holds: weights that a source reads without Keras, values of a thread, training arrays that callbacks may change.

Such reads and changes cannot be noticed when they happen. Imports no framework.
"""

from __future__ import annotations

import threading
from typing import Any

import keras
import numpy as np

from abreast.feed.reach import Reach

# Methods of PyTorch's modules that lead to weights.
_PAST_KERAS = frozenset(
    ("parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "load_state_dict", "_value")
)


def held_by(source: Reach, model: Any) -> str:
    """What a source's code holds, for a message; "" if it is nothing of that kind. `model`: the model in training, or None."""
    if any(isinstance(each, threading.local) and vars(each) for each in source.met.values()):
        return "values of the thread of the script (threading.local)"
    return "weights of the model in training" if model is not None and _weights_held(source, model) else ""


def _weights_held(source: Reach, model: Any) -> bool:
    """Whether a source's code holds the memory of a weight, or a part of the model and the name of a method that leads there."""
    layers = {id(each) for each in model._flatten_layers()}
    if not source.met.keys().isdisjoint(layers) and not _PAST_KERAS.isdisjoint(source.names):
        return True
    places = {_place(each._value) for each in model.variables} - {None}
    return any(_place(each) in places for each in source.met.values())


def array_held(code: Reach, data: Any) -> bool:
    """Whether code holds the memory of an array of training data."""
    arrays = [each for each in map(_as_array, keras.tree.flatten(data)) if each is not None]
    held = [each for each in map(_as_array, code.met.values()) if each is not None]
    return any(np.may_share_memory(one, other) for one in arrays for other in held)


def _place(value: Any) -> int | None:
    array = _as_array(value)
    return None if array is None or not array.size else int(array.__array_interface__["data"][0])


def _as_array(value: Any) -> Any:
    """An array of NumPy, or a tensor of PyTorch as one that shares its memory; None for any other value."""
    if str(type(value).__module__).partition(".")[0] == "torch" and hasattr(value, "untyped_storage"):
        is_here = value.device.type == "cpu" and value.layout is not None and not value.is_sparse
        return value.detach().view(-1).numpy() if is_here and value.is_contiguous() and value.numel() else None
    return value if isinstance(value, np.ndarray) else None
