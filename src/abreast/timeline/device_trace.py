"""`DeviceTrace`: a Keras callback that runs the backend's own profiler over chosen steps of a training.

The backend chooses the profiler, and explains how to open its files (`Tracer` in `backend/instruments.py`).
"""

from __future__ import annotations

import threading
from os import PathLike
from pathlib import Path
from typing import Any

import keras

from abreast.backend import current_backend
from abreast.backend.instruments import Tracer
from abreast.errors import BackendError
from abreast.placed_models import placement_of
from abreast.stderr import tell
from abreast.timeline.callback_times import Fit

_LOOK_SECONDS = 1.0
_JOIN_SECONDS = 60.0


class DeviceTrace(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """A Keras callback that runs the backend's own profiler over some steps of a training.

    Steps are slow while it runs: begin after some steps, which compile, and trace few. At the end it prints how to open its
    files.

    Args:
        steps: the first step, and the step after the last one, counted from 0 over all epochs.
        logdir: the folder for the profiler's files.

    Raises:
        BackendError: `steps` is invalid, or in `fit` if a profiler is already running.

    Example:
        >>> import abreast, keras
        >>> import numpy as np
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> x = np.ones((64, 8), "float32")
        >>> trace = abreast.DeviceTrace(steps=(2, 4), logdir="device-trace")
        >>> history = model.fit(x, x[:, :1], batch_size=16, callbacks=[trace], verbose=0)
        >>> any(path.is_file() for path in trace.logdir.rglob("*"))
        True
    """

    def __init__(self, steps: tuple[int, int] = (10, 20), logdir: str | PathLike[str] = "device-trace") -> None:
        super().__init__()
        self.steps = _checked(steps)
        self.logdir = Path(logdir)
        self._fit: Fit | None = None
        self._running: _Running | None = None
        self._num_begun = self._first = 0
        self._handle: Any = None

    # Called by Keras.

    def on_train_begin(self, logs: Any = None) -> None:
        self._end()
        self._num_begun, self._handle = 0, None
        placement = placement_of(self.model)
        backend = current_backend() if placement is None else placement.backend
        self._instruments = backend.instruments
        self._fit = Fit.around(self)
        self._fit.follow(self)

    def on_train_end(self, logs: Any = None) -> None:
        fit, self._fit = self._fit, None
        if fit is not None:
            fit.leave(self)
        self._end()
        if fit is not None and self._num_begun <= self.steps[0]:
            tell(
                f"no device trace: the training had {self._num_begun} steps, and the trace begins at step "
                f"{self.steps[0]}\nhint: choose earlier `steps`"
            )

    # Called by `Fit`, as a `EventListener`. A callback with its own `on_train_batch_end` would keep Keras from working ahead.

    def before(self, event: str, index: int, logs: Any, time_ns: int) -> None:
        if event == "on_train_batch_begin":
            self._first = index
            self._begin_step()
        elif event == "on_train_batch_end":
            assert self._fit is not None
            self._num_begun += self._fit.num_batches(self._first, index)
            if self._running is not None:
                self._handle = self._instruments.mark(logs)
                self._running.tracer.end_step()

    def after(self, event: str, time_ns: int) -> None:
        pass

    def _begin_step(self) -> None:
        first, end = self.steps
        if self._running is not None and self._num_begun >= end:
            self._end()
        if self._running is None and first <= self._num_begun < end:
            assert self._fit is not None
            self.logdir.mkdir(parents=True, exist_ok=True)
            self._running = _Running(self._instruments.trace(str(self.logdir)), self._fit, self.logdir)
        if self._running is not None:
            self._running.tracer.begin_step(self._num_begun)

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        if self._handle is not None:  # work that is still under way belongs to the traced steps
            self._instruments.finished(self._handle)
            self._handle = None
        running.stop()


class _Running:
    """A running profiler, and a thread that stops it if the fit around it fails."""

    def __init__(self, tracer: Tracer, fit: Fit, logdir: Path) -> None:
        self.tracer = tracer
        self._fit, self._logdir = fit, logdir
        self._is_stopped = False
        self._lock = threading.RLock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="abreast-device-trace", daemon=True)
        self._thread.start()
        fit.when_forgotten(self._finish)

    def stop(self) -> None:
        """Stop the profiler from this thread, and print the place of its files."""
        self.tracer.end_step()
        self._finish()
        self._thread.join(_JOIN_SECONDS)

    def _watch(self) -> None:
        while not self._done.wait(_LOOK_SECONDS):
            if self._fit.is_over:
                self._finish()
                return

    def _finish(self) -> None:
        """Stop the profiler and print the place of its files, unless it is stopped or this thread cannot stop it."""
        self._done.set()
        with self._lock:
            if self._is_stopped or (how := self.tracer.stop()) is None:
                return
            self._is_stopped = True
        tell(f"the device trace is in {self._logdir}\nhint: {how}")


def _checked(steps: Any) -> tuple[int, int]:
    try:
        first, end = steps
        is_range = (
            all(isinstance(step, int) and not isinstance(step, bool) for step in (first, end)) and 0 <= first < end
        )
    except (TypeError, ValueError):
        is_range = False
    if not is_range:
        raise BackendError(
            f"steps={steps!r} is not allowed", "give the first step and the step after the last one, as (10, 20)"
        )
    return first, end
