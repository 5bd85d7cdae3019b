"""Measurements that a diagnosis takes once: each callback's time, a validation, processor time, the learning rate."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import os
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from abreast.cpu import num_cores
from abreast.doctor.call import FitCall
from abreast.doctor.clock import TrialClock
from abreast.doctor.facts import Callbacks, Validation
from abreast.doctor.trials import fit, quiet
from abreast.keras_private.data_adapters import registry as data_adapters
from abreast.keras_private.data_adapters import unpack_x_y_sample_weight
from abreast.samplers.processor import Processor

_BATCH_METHODS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
_EPOCH_METHODS = ("on_epoch_end",)
_VALIDATION_STEPS = 12
_WARMUP, _LEAST_CALLS = 3, 6  # calls of Keras
_TICKS = os.sysconf("SC_CLK_TCK")


class CallbackTimes:
    """Seconds that each callback spent in its methods since `clear`."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._in_batches: dict[str, float] = defaultdict(float)
        self._calls: dict[tuple[str, str], int] = defaultdict(int)
        self._at_ends: dict[str, list[float]] = defaultdict(list)

    def note(self, callback: str, method: str, seconds: float) -> None:
        if method in _EPOCH_METHODS:
            self._at_ends[callback].append(seconds)
        else:
            self._in_batches[callback] += seconds
            self._calls[callback, method] += 1

    def result(self, steps_per_call: int, progress_bar: bool) -> Callbacks:
        calls = {name: max(n for (each, _), n in self._calls.items() if each == name) for name in self._in_batches}
        per_step = {name: total / calls[name] / steps_per_call for name, total in self._in_batches.items()}
        per_epoch = {name: statistics.median(times) for name, times in self._at_ends.items()}
        return Callbacks(per_step, per_epoch, progress_bar)


@contextlib.contextmanager
def timed_callbacks(callbacks: Sequence[Any], validated: bool) -> Iterator[CallbackTimes]:
    """Time the methods of these callbacks. Timed methods are set on the objects; the caller restores the objects.

    `validated`: whether the run as given validates. Trials do not validate, so their `on_epoch_end` gets training's values
    in place of validation's.
    """
    clocks = CallbackTimes()
    names = Counter(type(callback).__name__ for callback in callbacks)
    for number, callback in enumerate(callbacks, 1):
        kind = type(callback).__name__
        label = kind if names[kind] == 1 else f"{kind} (callback {number})"
        for name in (*_BATCH_METHODS, *_EPOCH_METHODS):
            method = getattr(callback, name, None)
            if method is None or getattr(method, "_is_default", False):
                continue
            if validated and name in _EPOCH_METHODS:
                method = _with_validation(method)
            setattr(callback, name, _timed(method, label, name, clocks))
    yield clocks


def _with_validation(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def on_epoch_end(epoch: int, logs: dict[str, Any] | None = None) -> Any:
        logs = {} if logs is None else logs
        for name, value in list(logs.items()):
            if not name.startswith("val_"):
                logs.setdefault(f"val_{name}", value)
        return method(epoch, logs)

    return on_epoch_end


def _timed(method: Callable[..., Any], callback: str, name: str, clocks: CallbackTimes) -> Callable[..., Any]:
    @functools.wraps(method)
    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return method(*args, **kwargs)
        finally:
            clocks.note(callback, name, time.perf_counter() - start)

    return timed


def validation(call: FitCall) -> Validation | None:
    """Measure one validation as given, from some of its steps, at the end of a `fit` of one step.

    None if the run does not validate, or if the number of its validation steps is not known.
    """
    arguments = call.arguments
    if arguments["validation_data"] is None:
        return None
    steps = _validation_steps(arguments)
    if steps is None:
        return None
    per_call = int(call.model.steps_per_execution or 1)
    measured = min(steps, max(_VALIDATION_STEPS, _LEAST_CALLS * per_call) // per_call * per_call)
    settings = {name: arguments[name] for name in ("validation_data", "validation_batch_size")}
    for _ in range(2):  # the first run compiles
        clock = _ValidationClock(measured, per_call)
        callbacks = [*call.callbacks, TrialClock(call.model, 0, 1), clock]
        with quiet():
            fit(
                call.model,
                call.fit_arguments(callbacks=callbacks, validation_steps=measured, validation_freq=1, **settings),
            )
    every = arguments["validation_freq"]
    return Validation(clock.seconds_per_step * steps, steps, measured, every if isinstance(every, int) else 1)


def _validation_steps(arguments: dict[str, Any]) -> int | None:
    if arguments["validation_steps"]:
        return int(arguments["validation_steps"])
    x, y, weight = unpack_x_y_sample_weight(arguments["validation_data"])
    rows = arguments["validation_batch_size"] or arguments["batch_size"]
    adapter = data_adapters.get_data_adapter(x=x, y=y, sample_weight=weight, batch_size=rows)
    steps: int | None = adapter.num_batches
    return steps


class _ValidationClock(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Times the steps of a validation of `steps` steps, except those in Keras's first calls."""

    def __init__(self, steps: int, per_call: int) -> None:
        super().__init__()
        self._steps, self._per_call = steps, per_call
        self._times: list[float] = []
        self._end = 0.0

    def on_test_begin(self, logs: Any = None) -> None:
        self._times.clear()

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._times.append(time.perf_counter())

    def on_test_end(self, logs: Any = None) -> None:
        for value in (logs or {}).values():
            np.asarray(value)
        self._end = time.perf_counter()

    @property
    def seconds_per_step(self) -> float:
        if not self._times:
            return 0.0
        warmup = min(_WARMUP, len(self._times) - 1)
        return (self._end - self._times[warmup]) / (self._steps - warmup * self._per_call)


def learning_rate(optimizer: Any) -> dict[str, Any]:
    """The learning rate, and whether it is the default of the optimizer's class; empty if it cannot be read."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    try:
        rate = float(np.asarray(optimizer.learning_rate))
        default = inspect.signature(type(optimizer).__init__).parameters["learning_rate"].default
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
    scheduled = not isinstance(getattr(optimizer, "_learning_rate", None), keras.Variable)
    is_default = not scheduled and isinstance(default, float) and math.isclose(rate, default, rel_tol=1e-6)
    return {"learning_rate": rate, "learning_rate_is_default": is_default, "optimizer": type(optimizer).__name__}


class IdleCores:
    """Number of idle cores since this object was made: used neither by this process and its children nor by others."""

    def __init__(self) -> None:
        self._processor = Processor()
        self._processor.sample()
        self._start, self._before = time.perf_counter(), _idle_seconds()

    def mean(self) -> float:
        samples = self._processor.sample()
        if not samples:
            return 0.0
        idle = (_idle_seconds() - self._before) / (time.perf_counter() - self._start)
        return max(0.0, min(num_cores() * (1 - samples[0].utilisation), idle))


def _idle_seconds() -> float:
    """Idle seconds of all cores together since the machine started; 0 if that is unknown."""
    try:
        return int(Path("/proc/stat").read_text().split()[4]) / _TICKS
    except (OSError, IndexError, ValueError):
        return 0.0
