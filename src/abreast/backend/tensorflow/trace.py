"""TensorFlow's profiler over some steps, for `Instruments.trace`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from abreast.backend.step_range import StepRange
from abreast.errors import BackendError

_OPEN = "pip install xprof, then: xprof --logdir {}"


class TensorFlowTracer:
    """See `Tracer` in `backend/instruments.py`."""

    def __init__(self, logdir: str) -> None:
        self._logdir = logdir
        self._range = StepRange(_annotate, bool(tf.config.get_visible_devices("GPU")))
        try:
            self._is_running = True
            tf.profiler.experimental.start(logdir)
        except (tf.errors.AlreadyExistsError, tf.errors.UnavailableError) as error:
            raise BackendError(
                f"TensorFlow's profiler cannot start: {error.message}",
                "end the other trace, with tf.profiler.experimental.stop; Keras's TensorBoard callback starts one with "
                "`profile_batch`",
            ) from error

    def begin_step(self, number: int) -> None:
        self._range.begin(number)

    def end_step(self) -> None:
        self._range.end()

    def stop(self) -> str | None:
        if self._is_running:
            self._is_running = False
            tf.profiler.experimental.stop()
        return _OPEN.format(self._logdir)


def _annotate(number: int) -> Any:
    return tf.profiler.experimental.Trace("train", step_num=number, _r=1)
