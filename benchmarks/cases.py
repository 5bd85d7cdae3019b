"""Models and data of the benchmarks by name, and the clock that measures steps of Keras's `fit`.

Imports Keras, and only those modules of abreast that do not place models: the native loops and plain Keras use exactly
the same models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from abreast.bench import clock, models
from abreast.bench.task import Task

_CLASSES = 10


def case(name: str, batch_size: int | None = None) -> Task:
    make, shape, default = _CASES[name]
    return Task(name, make, shape, batch_size or default, _CLASSES, again=("cases:case", (name, batch_size)))


def seconds_per_step(
    model: Any, data: tuple[Any, Any], batch_size: int, dropped: int, wait: Callable[[], None]
) -> float:
    """Time `fit` over `data`, which has one batch more than are dropped and timed; `wait` waits for the device."""
    x, y = data
    steps = len(x) // batch_size - dropped - 1
    arguments = {"x": x, "y": y, "batch_size": batch_size, "shuffle": False}
    return clock.seconds_per_step(model, arguments, dropped, steps, wait)


def _mlp() -> Any:
    return models.build("tiny")


def _convnet() -> Any:
    return models.build("convnet")


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
