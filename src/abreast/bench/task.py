"""`Task`: the training whose step is timed, the same for abreast, plain Keras and the hand-written loop.

It imports nothing else of abreast, so that the rivals do not use abreast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np


@dataclass(frozen=True)
class Task:
    """A model to time: its builder, the shape of one input row, the global batch, and the number of classes.

    `tokens`: the input is integers below this number, not floats. `target_shape`: the shape of one row's labels. `values`: labels
    are floats, not classes. `again`: `module:function` and the arguments that make the same task in another process.
    """

    name: str
    make: Callable[[], Any]
    shape: tuple[int, ...]
    batch_size: int
    classes: int = 10
    tokens: int | None = None
    target_shape: tuple[int, ...] = ()
    values: bool = False
    again: tuple[str, tuple[Any, ...]] = ("", ())

    @property
    def batch_bytes(self) -> int:
        """Bytes of one global batch on the host."""
        return self.batch_size * 4 * (math.prod(self.shape) + math.prod(self.target_shape))

    def build(self) -> Any:
        keras.utils.set_random_seed(0)
        return self.make()

    def compiled(self) -> Any:
        """The compiled model: compiled by its author, or else with our optimizer and loss."""
        model = self.build()
        if not getattr(model, "compiled", False):
            model.compile(self.optimizer(), self.loss())
        return model

    def optimizer(self) -> Any:
        return keras.optimizers.SGD(0.01, momentum=0.9)

    def loss(self, reduction: str = "sum_over_batch_size") -> Any:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)

    def data(self, num_batches: int, seed: int = 0) -> tuple[Any, Any]:
        """Whole batches of noise: `x` in float32, or int32 for tokens, and labels in int32."""
        return self.rows(num_batches * self.batch_size, seed)

    def rows(self, num_rows: int, seed: int = 0) -> tuple[Any, Any]:
        random = np.random.default_rng(seed)
        shape = (num_rows, *self.shape)
        if self.tokens is None:
            x: Any = random.standard_normal(shape, dtype=np.float32)
        else:
            x = random.integers(0, self.tokens, shape, dtype=np.int32)
        targets = (num_rows, *self.target_shape)
        if self.values:
            return x, random.standard_normal(targets, dtype=np.float32)
        return x, random.integers(0, self.classes, targets, dtype=np.int32)
