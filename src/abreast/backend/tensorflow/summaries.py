"""`tf.summary` inside of a step: what the model writes there is written once, by the first replica, as `tf.distribute` does it.

A thread of its own knows nothing of the caller's writer. Imports TensorFlow and `exact`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Private, and read by `tf.distribute` in the same way; a test fails when it changes.
from tensorflow.python.ops.summary_ops_v2 import _summary_state as _now

from abreast import exact

_NAMES = ("is_recording", "is_recording_distribution_strategy", "step", "writer")


class Summaries:
    """The caller's state of `tf.summary`, to be taken over by the thread of a replica."""

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

    def _announced(self, condition: Any) -> Callable[[], Any]:
        """The caller's condition; TensorFlow asks for it where a summary is written."""

        def is_recording() -> Any:
            exact.warn_once(
                self._model,
                "summary",
                f"{type(self._model).__name__} writes to tf.summary inside of its step: what is written is of the first "
                "device's rows",
            )
            return condition() if callable(condition) else condition

        return is_recording
