"""Random generators that the user's objects hold, and their state: of Python, NumPy and PyTorch. Imports no framework."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np


class GeneratorState:
    """The state of a generator at one moment."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._state = _read(generator)

    def has_moved(self) -> bool:
        return _as_bytes(_read(self._generator)) != _as_bytes(self._state)

    def put_back(self) -> None:
        if not self.has_moved():
            return
        if isinstance(self._generator, random.Random):
            self._generator.setstate(self._state)
        elif isinstance(self._generator, np.random.Generator):
            self._generator.bit_generator.state = self._state
        else:
            self._generator.set_state(self._state)


def is_generator(value: Any) -> bool:
    if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState)):
        return type(value) is not random.SystemRandom
    return type(value).__name__ == "Generator" and type(value).__module__.partition(".")[0] == "torch"


def _read(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state()


def _as_bytes(state: Any) -> bytes:
    return bytes(state.numpy()) if hasattr(state, "numpy") else pickle.dumps(state)
