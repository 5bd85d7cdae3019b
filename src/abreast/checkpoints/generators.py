"""The random generators of a training as plain values, for a checkpoint: see `state.RandomState`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from abreast.keras_private import global_state
from abreast.state import RandomState


@dataclass(frozen=True)
class Generators:
    """Reads and sets all random generators; the states are opaque."""

    read: Callable[[], Any]
    put_back: Callable[[Any], None]


def read(model: Any) -> dict[str, Any]:
    """The states of Python's, NumPy's, the framework's and Keras's generators; with a model, also of its PyTorch workers."""
    state = RandomState.read(model)
    return {"python": state.python, "numpy": state.numpy, "framework": state.framework, "keras": state.keras_value}


def write(model: Any, saved: dict[str, Any]) -> None:
    """Set the states that `read` returned."""
    own = None if saved["keras"] is None else _keras_generator()
    RandomState(saved["python"], saved["numpy"], saved["framework"], own, saved["keras"]).put_back(model)


def _keras_generator() -> Any:
    """Keras's own generator, which Keras makes on its first use."""
    present = global_state.get_global_attribute(global_state.GLOBAL_SEED_GENERATOR)
    return keras.random.SeedGenerator(0) if present is None else present


def is_alike(one: Any, other: Any) -> bool:
    """Whether two states are equal."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_alike(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_alike, one, other))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)
