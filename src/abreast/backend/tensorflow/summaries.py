"""`tf.summary` inside a step: only the first replica writes, as with `tf.distribute`.

Replicas run in threads, which do not inherit the caller's writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Private; `tf.distribute` reads it in the same way, and a test fails when it changes.
from tensorflow.python.ops.summary_ops_v2 import _summary_state as _now

from abreast import exact

_NAMES = ("is_recording", "is_recording_distribution_strategy", "step", "writer")


class Summaries:
    """The caller's `tf.summary` state, which the replicas' threads take over."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._state = {name: getattr(_now, name) for name in _NAMES}

    def take_over(self, index: int) -> None:
        if self._state["writer"] is None:
            return
        for name, value in self._state.items():
            setattr(_now, name, value)
        if index > 0:
            _now.is_recording_distribution_strategy = False
        else:
            _now.is_recording = self._announced(self._state["is_recording"])

    @contextmanager
    def of_rank(self, first: int) -> Iterator[None]:
        """Inside, the process's only replica writes summaries if it is the first replica of all."""
        before = _now.is_recording_distribution_strategy
        if first > 0:
            _now.is_recording_distribution_strategy = False
        try:
            yield
        finally:
            _now.is_recording_distribution_strategy = before

    def _announced(self, condition: Any) -> Callable[[], Any]:
        """The caller's condition, with a warning. TensorFlow calls it when a summary is written."""

        def is_recording() -> Any:
            exact.warn_once(
                self._model,
                "summary",
                f"{type(self._model).__name__} writes to tf.summary inside of its step: only the first replica writes, and it "
                "sees the first device's rows",
            )
            return condition() if callable(condition) else condition

        return is_recording
