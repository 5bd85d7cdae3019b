"""The step clock: it reads the time in Keras's `fit` when the devices have finished all work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import keras


def seconds_per_step(
    model: Any, arguments: Mapping[str, Any], dropped: int, steps: int, wait: Callable[[], None]
) -> float:
    """Mean time of `steps` steps of a `fit` with these arguments, after the first `dropped`; `wait` waits for the devices.

    The data must have at least one more batch, in this epoch or the next: a step ends where the next begins.
    """
    clock = Clock(model, dropped, steps, wait)
    callbacks = [*arguments.get("callbacks", ()), clock]
    model.fit(**{"verbose": 0, "epochs": _EPOCHS, **arguments, "callbacks": callbacks})
    return clock.seconds / steps


_EPOCHS = 1_000_000  # the clock ends the fit


class Clock(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Times `steps` steps after the first `dropped`, across the ends of epochs; then ends the `fit`.

    It has no `on_train_batch_end`, which would keep Keras from its asynchronous path.
    """

    def __init__(self, model: Any, dropped: int, steps: int, wait: Callable[[], None]) -> None:
        super().__init__()
        self.seconds = 0.0
        self._trained = model  # not `self.model`, which on JAX takes the state out of the running program
        self._first, self._last = dropped, dropped + steps
        self._wait = wait
        self._begun = 0
        self._start = 0.0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._begun == self._first:
            self._wait()
            self._start = time.perf_counter()
        elif self._begun == self._last:
            self._wait()
            self.seconds = time.perf_counter() - self._start
            self._trained.stop_training = True
        self._begun += 1
