"""A callback that times the steps of a `fit`: those within epochs, and separately the time between two epochs."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import keras

_PATIENCE_SECONDS = 60.0
# In an epoch of more calls than this, the first call is not timed as a step: it may wait for a source that restarts.
# Whatever it takes longer than an average call counts as time between epochs.
_CALLS_TO_SPARE = 4


class TrialClock(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Times at least `steps` steps of a `fit` after the first `warmup` ones, then ends the `fit`. Must be the last callback.

    A step lasts from its begin to the begin of the next one, with all callbacks and with Keras's own work in between.
    No other callback can end the `fit` before that.
    """

    # Without this, Keras would run the progress bar in the training thread, and JAX would not work ahead.
    async_safe = True

    def __init__(self, model: Any, warmup: int, steps: int) -> None:
        super().__init__()
        self.seconds_per_step: float | None = None  # None: not known yet, or the source ended too early
        self.between_epochs: list[float] = []  # seconds
        self._per_call = max(1, int(model.steps_per_execution or 1))
        self._warmup_calls = max(1, math.ceil(warmup / self._per_call))
        self._trained = model  # not `self.model`: on JAX that property takes the state out of the running program
        self._wanted = steps
        self._calls = 0  # calls begun in this `fit`
        self._seconds, self._steps = 0.0, 0  # totals of the segments that have ended
        self._start: float | None = None  # start time of the current segment
        self._segment_steps: list[int] = []  # steps of each call in the current segment
        self._epoch_end: float | None = None  # end of the last step of the previous epoch
        self._call_ended = threading.Condition()
        self._begun = self._ended = 0  # calls in this epoch
        self._ended_at = 0.0
        self._epoch_calls = 0  # calls in the previous epoch

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
        """Note that a call has ended: the logs hold numbers, so the device has computed its steps.

        Keras calls this in a thread of its own if every callback allows that.
        """
        with self._call_ended:
            self._ended += 1
            self._ended_at = time.perf_counter()
            self._call_ended.notify_all()
        # Overrule callbacks that stop the training: a diagnosis needs steps, not a trained model.
        if self._trained.stop_training and self.seconds_per_step is None:
            self._trained.stop_training = False

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Close the segment. All calls have ended by now, except a call without a batch from the source."""
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
        """Steps of the call that begins at a batch; the last call of an epoch may have fewer."""
        known = self.params.get("steps")
        return min(self._per_call, known - batch) if known else self._per_call

    def _epoch_is_long(self) -> bool:
        known = self.params.get("steps")
        calls = known / self._per_call if known else self._epoch_calls
        return calls > _CALLS_TO_SPARE

    def _wait(self) -> None:
        """Wait until the device has computed every step that was begun."""
        with self._call_ended:
            self._call_ended.wait_for(lambda: self._ended >= self._begun, _PATIENCE_SECONDS)
