"""Random generators of Python, NumPy and PyTorch that the user's objects hold. Imports no framework."""

from __future__ import annotations

import copy
import random
from typing import Any

import keras

from abreast.feed import values


class GeneratorState:
    """The state of a generator at one moment."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._state = copy.deepcopy(values.saved_value(generator))
        self._content = values.content(generator)

    def has_moved(self) -> bool:
        return bool(values.content(self._generator) != self._content)

    def put_back(self) -> None:
        if self.has_moved():
            values.fill(self._generator, self._state)


def is_generator(value: Any) -> bool:
    """Whether a value is a generator with a state that is not Keras's, whose states are variables."""
    kinds_without = (random.SystemRandom, keras.random.SeedGenerator, keras.Layer)
    return values.is_generator(value) and not isinstance(value, kinds_without)
