"""The sides of a comparison: abreast with its settings, Keras's own training on several devices, and the hand-written loop."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import keras

from abreast.bench.cases import Case, variant_settings
from abreast.bench.clock import seconds_per_step
from abreast.bench.inputs import Input
from abreast.bench.task import Task
from abreast.errors import BackendError
from abreast.parallel import parallelize


@dataclass(frozen=True)
class Side:
    """A side. `run(dropped, steps)` returns the mean seconds of a step; `model` is None for a loop with its own model."""

    run: Callable[[int, int], float]
    close: Callable[[], None]
    model: Any = None


def make(name: str, case: Case, task: Task, fed: Input) -> Side:
    """A side, not yet compiled. Raises `BackendError` for a side that this backend or case does not have."""
    native: Any = importlib.import_module(f"abreast.bench.native_{keras.backend.backend()}")
    if name == "native":
        return _native(native, case, task, fed)
    if name == "keras":
        return _keras(native, case, task, fed)
    model = parallelize(task.compiled(), case.devices, **variant_settings(name))
    return Side(functools.partial(fit, model, fed), lambda: None, model)


def fit(model: Any, fed: Input, dropped: int, steps: int, callbacks: tuple[Any, ...] = ()) -> float:
    native: Any = importlib.import_module(f"abreast.bench.native_{keras.backend.backend()}")
    arguments = fed.arguments() | {"callbacks": callbacks}
    return seconds_per_step(model, arguments, dropped, steps, lambda: native.wait_for(model))


def _keras(native: Any, case: Case, task: Task, fed: Input) -> Side:
    scope = native.plain_scope(case.devices)
    with scope():
        model = task.compiled()

    def run(dropped: int, steps: int) -> float:
        with scope() if case.devices > 1 else nullcontext():
            return fit(model, fed, dropped, steps)

    return Side(run, lambda: None, model)


def _native(native: Any, case: Case, task: Task, fed: Input) -> Side:
    if task.values or fed.arrays is None:
        raise BackendError(
            f"the native loops train a classifier with their own loss, but {case.model} is compiled with another",
            "leave out native, or do not compile the model",
        )
    loop = native.Native(task, case.devices, fed.arrays)
    return Side(loop.run, loop.close)
