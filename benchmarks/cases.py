"""What the benchmarks train: models and data by name, and the clock that measures steps of Keras's `fit`.

Imports Keras; nothing of abreast, so that the native loops and plain Keras use the very same models.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

_CLASSES = 10


@dataclass(frozen=True)
class Case:
    """A model to time: how to build it, its input's shape, and the global batch."""

    name: str
    make: Callable[[], Any]
    shape: tuple[int, ...]
    batch_size: int

    def build(self) -> Any:
        keras.utils.set_random_seed(0)
        return self.make()

    def compiled(self) -> Any:
        model = self.build()
        model.compile(self.optimizer(), self.loss())
        return model

    def optimizer(self) -> Any:
        return keras.optimizers.SGD(0.01, momentum=0.9)

    def loss(self, reduction: str = "sum_over_batch_size") -> Any:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)

    def data(self, num_batches: int, seed: int = 0) -> tuple[Any, Any]:
        """Whole batches of noise: `x` in float32 and labels in int32."""
        random = np.random.default_rng(seed)
        rows = num_batches * self.batch_size
        x = random.standard_normal((rows, *self.shape), dtype=np.float32)
        return x, random.integers(0, _CLASSES, rows, dtype=np.int32)


def case(name: str, batch_size: int | None = None) -> Case:
    make, shape, default = _CASES[name]
    return Case(name, make, shape, batch_size or default)


def seconds_per_step(
    model: Any, data: tuple[Any, Any], batch_size: int, dropped: int, wait: Callable[[], None]
) -> float:
    """Time `fit` over `data`, which has one batch more than are dropped and timed; `wait` waits for the device."""
    x, y = data
    steps = len(x) // batch_size - dropped - 1
    clock = Clock(dropped, dropped + steps, wait)
    model.fit(x, y, batch_size=batch_size, epochs=1, shuffle=False, verbose=0, callbacks=[clock])
    return (clock.end_seconds - clock.start_seconds) / steps


class Clock(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Reads the time when batch `first` begins and when batch `last` does, each time with nothing left to compute.

    It has no `on_train_batch_end`: one would keep Keras from its asynchronous path.
    """

    def __init__(self, first: int, last: int, wait: Callable[[], None]) -> None:
        super().__init__()
        self.first, self.last, self.wait = first, last, wait
        self.start_seconds = self.end_seconds = 0.0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch == self.first:
            self.wait()
            self.start_seconds = time.perf_counter()
        elif batch == self.last:
            self.wait()
            self.end_seconds = time.perf_counter()


def _mlp() -> Any:
    layers = keras.layers
    return keras.Sequential([keras.Input((32,)), layers.Dense(64, activation="relu"), layers.Dense(_CLASSES)])


def _convnet() -> Any:
    layers = keras.layers
    model = keras.Sequential([keras.Input((32, 32, 3))])
    for filters in (32, 64, 64):
        model.add(layers.Conv2D(filters, 3, padding="same", use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
        model.add(layers.MaxPooling2D())
    model.add(layers.Flatten())
    model.add(layers.Dense(_CLASSES))
    return model


def _resnet50() -> Any:
    return keras.applications.ResNet50(
        weights=None, input_shape=(32, 32, 3), classes=_CLASSES, classifier_activation=None
    )


_CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...], int]] = {
    "mlp": (_mlp, (32,), 64),
    "convnet": (_convnet, (32, 32, 3), 64),
    "resnet50": (_resnet50, (32, 32, 3), 32),
}
NAMES = tuple(_CASES)
