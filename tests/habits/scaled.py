"""A layer whose outputs are multiplied by a number that a function of the script returns at each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


class Scaled(keras.layers.Dense):  # type: ignore[misc]  # Keras has no types
    """A `Dense` times `read()`."""

    def __init__(self, units: int, read: Callable[[], float], **options: Any) -> None:
        super().__init__(units, **options)
        self.read = read

    def call(self, inputs: Any) -> Any:
        return self.read() * super().call(inputs)
