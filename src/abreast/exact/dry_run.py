"""Dry runs of a model: no random number is drawn, no variable is assigned, and Python objects are restored.

Inside `dry_run(model)`, Keras's random functions return numbers that are the same for every row: a dropout keeps all, a normal
returns its mean. BatchNormalization uses its moving statistics as the moments of the batch. Assignments to Keras's variables stay
in a scope. This thread draws from private generators (`global_draws.py`). The backend restores the framework's generators and
state that Keras does not see. Imports no framework.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops

from abreast import apart_from_sources, contexts
from abreast.exact import global_draws
from abreast.exact.replica import Replica
from abreast.exact.snapshot import Snapshot
from abreast.keras_private.backend import random as keras_random

_thread = threading.local()


def is_dry_run() -> bool:
    return getattr(_thread, "is_dry_run", False)


@contextmanager
def dry_run(model: Any) -> Iterator[Snapshot]:
    """Inside, runs of the model leave no trace; at the end, the Python objects that it holds are restored."""
    _install()
    with apart_from_sources.dry_run(), contexts.restored():
        snapshot = Snapshot(model)
        _thread.is_dry_run = True
        try:
            with global_draws.redirected():
                yield snapshot
        finally:
            _thread.is_dry_run = False
            snapshot.put_back()


@contextmanager
def python_once(running: Replica, holder: Any) -> Iterator[None]:
    """Inside, code of `holder` (a loss, a metric) finds Python objects, such as generators, as one device does."""
    befores = running.link.befores
    if befores is None:
        yield
        return
    call = id(holder), running.python_calls[id(holder)]
    running.python_calls[id(holder)] += 1
    if call not in befores:
        befores[call] = Snapshot(holder)
    else:
        befores[call].rewind()
    yield


@functools.cache
def _install() -> None:
    """Wrap Keras's random functions, once. Outside `dry_run`, and in other threads, they work as before."""
    functions: Any = keras_random
    for name, fixed in _WITHOUT_DRAWS.items():
        setattr(functions, name, _unless_dry_run(getattr(functions, name), fixed))


def _unless_dry_run(plain: Callable[..., Any], fixed: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def draw(*args: Any, **kwargs: Any) -> Any:
        return fixed(*args, **kwargs) if is_dry_run() else plain(*args, **kwargs)

    return draw


def _full(shape: Any, value: Any, dtype: Any) -> Any:
    return ops.broadcast_to(ops.cast(value, dtype or keras.config.floatx()), shape)


def _normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    return _full(shape, mean, dtype)


def _uniform(shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    return _full(shape, (minval + maxval) / 2, dtype)


def _randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Any:
    return _full(shape, minval + (maxval - minval) // 2, dtype)


def _categorical(logits: Any, num_samples: Any, dtype: Any = "int32", seed: Any = None) -> Any:
    return ops.cast(ops.repeat(ops.argmax(logits, axis=-1, keepdims=True), num_samples, axis=-1), dtype or "int32")


def _dropout(inputs: Any, rate: Any, noise_shape: Any = None, seed: Any = None) -> Any:
    return inputs


def _shuffle(x: Any, axis: int = 0, seed: Any = None) -> Any:
    return ops.roll(x, 1, axis=axis)  # a shuffle of rows relates them to one another


def _gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Any:
    return _full(shape, alpha, dtype)


def _binomial(shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None) -> Any:
    return _full(shape, counts * probabilities, dtype)


def _beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Any:
    return _full(shape, alpha / (alpha + beta), dtype)


_WITHOUT_DRAWS: dict[str, Callable[..., Any]] = {
    "normal": _normal,
    "truncated_normal": _normal,
    "uniform": _uniform,
    "randint": _randint,
    "categorical": _categorical,
    "dropout": _dropout,
    "shuffle": _shuffle,
    "gamma": _gamma,
    "binomial": _binomial,
    "beta": _beta,
}
RANDOM_FUNCTIONS = tuple(_WITHOUT_DRAWS)
