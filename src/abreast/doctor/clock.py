"""Times the steps of a `fit` by a callback: those within epochs, and what lies between two epochs beside them. Imports Keras."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import keras

_PATIENCE_SECONDS = 60.0
# From so many calls of Keras in an epoch on, its first one counts to what lies between epochs: it may wait for a source
# that begins anew.
_CALLS_TO_SPARE = 4


class Clock(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Times at least `steps` steps of a `fit` behind the first `warmup` ones, then ends it. It goes last in the list.

    A step's time goes from the begin of one to the begin of the next: with all callbacks, and what Keras does between.
    Until then no other callback ends the `fit`.
    """

    async_safe = True  # or Keras would run the progress bar in the training thread, and JAX not ahead, because of us

    def __init__(self, model: Any, warmup: int, steps: int) -> None:
        super().__init__()
        self.seconds_per_step: float | None = None  # None: the source ended before
        self.between_epochs: list[float] = []  # seconds
        self._per_call = max(1, int(model.steps_per_execution or 1))
        self._warmup_calls = max(1, math.ceil(warmup / self._per_call))
        self._trained = model  # not `self.model`, which on JAX takes the state out of the running program
        self._wanted = steps
        self._calls = 0  # begun since the beginning
        self._seconds, self._steps = 0.0, 0  # timed, in segments that ended
        self._start: float | None = None  # of the present segment
        self._segment_steps: list[int] = []  # of each of its calls
        self._epoch_end: float | None = None  # of the last step of the epoch before
        self._told = threading.Condition()
        self._begun = self._ended = 0  # calls of this epoch
        self._ended_at = 0.0
        self._epoch_calls = 0  # of the epoch before

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begun = self._ended = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._start is not None and self._steps + sum(self._segment_steps) >= self._wanted:
            self._wait()
            self._end_segment(time.perf_counter())
        if self.seconds_per_step is not None:
            self._trained.stop_training = True
            return
        if self._start is None:
            self._begin_segment()
        self._begun += 1
        self._calls += 1
        self._segment_steps.append(self._steps_from(batch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Called with numbers: the device has done the step. In a thread of Keras's where all callbacks allow it."""
        with self._told:
            self._ended += 1
            self._ended_at = time.perf_counter()
            self._told.notify_all()
        # Against callbacks that end a training: a diagnosis wants steps, not a model.
        if self._trained.stop_training and self.seconds_per_step is None:
            self._trained.stop_training = False

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """All calls have ended by now, but one for which the source had no batch."""
        if self._ended < self._begun and self._segment_steps:
            self._segment_steps.pop()
        if self._start is not None:
            self._end_segment(self._ended_at)
        self._epoch_end, self._epoch_calls = self._ended_at, self._ended
        self._trained.stop_training = self.seconds_per_step is not None

    def _begin_segment(self) -> None:
        first_steps = sum(self._segment_steps) if self._begun else 0
        self._segment_steps.clear()
        if self._calls < self._warmup_calls or (self._begun == 0 and self._epoch_is_long()):
            return
        self._wait()
        self._start = time.perf_counter()
        if self._epoch_end is not None and self._begun <= 1 and self._steps:
            own = first_steps * self._seconds / self._steps
            self.between_epochs.append(max(0.0, self._start - self._epoch_end - own))
        self._epoch_end = None

    def _end_segment(self, end: float) -> None:
        assert self._start is not None
        if self._segment_steps:
            self._seconds += end - self._start
            self._steps += sum(self._segment_steps)
        self._start = None
        self._segment_steps.clear()
        if self._steps >= self._wanted:
            self.seconds_per_step = self._seconds / self._steps

    def _steps_from(self, batch: int) -> int:
        """Steps of the call that begins with a batch: an epoch's last one has fewer where its steps do not divide."""
        known = self.params.get("steps")
        return min(self._per_call, known - batch) if known else self._per_call

    def _epoch_is_long(self) -> bool:
        known = self.params.get("steps")
        calls = known / self._per_call if known else self._epoch_calls
        return calls > _CALLS_TO_SPARE

    def _wait(self) -> None:
        """For the device to have done all steps that were begun."""
        with self._told:
            self._told.wait_for(lambda: self._ended >= self._begun, _PATIENCE_SECONDS)
