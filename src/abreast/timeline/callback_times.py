"""The times and durations of Keras's calls of the callbacks of one fit: all callbacks together, not each.

The methods of one `CallbackList` object are wrapped, not those of the class. So other fits, also nested ones, are not
affected, and the wrapping ends with the object. Also here: the search for the fit of a callback.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from types import FrameType
from typing import Any, Protocol

from keras.callbacks import CallbackList

from abreast.errors import BackendError
from abreast.keras_private.trainers import EpochIterator
from abreast.threads import frames

EVENTS = (
    "on_epoch_begin",
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_test_begin",
    "on_test_end",
    "on_epoch_end",
    "on_train_end",
)
_WITHOUT_INDEX = {"on_test_begin", "on_test_end", "on_train_end"}
_LISTENERS = "_abreast_listeners"


class EventListener(Protocol):
    """A listener, called in the training thread before and after Keras calls all callbacks with an event."""

    def before(self, event: str, index: int, logs: Any, time_ns: int) -> None: ...

    def after(self, event: str, time_ns: int) -> None: ...


class Fit:
    """The `fit` that called a callback's `on_train_begin`. A fit that failed never calls `on_train_end`: ask `is_over`."""

    def __init__(self, callbacks: Any, frame: FrameType | None) -> None:
        self._callbacks = weakref.ref(callbacks)
        epochs = None if frame is None else frame.f_locals.get("epoch_iterator")
        self._epochs = weakref.ref(epochs) if isinstance(epochs, EpochIterator) else None
        self._thread = threading.get_ident()
        # Not the frame itself, which would keep the user's data alive. Python does not reuse the frame's address while its
        # `CallbackList` is alive.
        self._frame = id(frame) if frame is not None else None

    @staticmethod
    def around(callback: Any) -> Fit:
        """The fit whose `CallbackList` is calling `callback` now."""
        frame: FrameType | None = sys._getframe(1)
        callbacks: Any = None
        while frame is not None:
            if callbacks is not None:
                if frame.f_code.co_name == "fit":
                    return Fit(callbacks, frame)
            elif isinstance(found := frame.f_locals.get("self"), CallbackList):
                callbacks = found
            frame = frame.f_back
        if callbacks is None:
            raise BackendError(
                f"{type(callback).__name__}.on_train_begin was not called by a keras.callbacks.CallbackList",
                "pass it to `fit(callbacks=[...])`; in a training loop of your own, call it through a CallbackList",
            )
        return Fit(callbacks, None)

    @property
    def is_over(self) -> bool:
        """True if the fit has returned or raised. Any thread may ask."""
        if self._callbacks() is None:
            return True
        if self._frame is None:
            return False
        with frames() as found:
            frame = found.get(self._thread)
            while frame is not None:
                if id(frame) == self._frame:
                    return False
                frame = frame.f_back
        return True

    def num_batches(self, first: int, last: int) -> int:
        """Batches of the step that ends. Keras always counts `steps_per_execution`, even if fewer batches remained."""
        count = last - first + 1
        epochs = self._epochs() if count > 1 and self._epochs is not None else None
        if epochs is None or not epochs._num_batches:  # a generator has no known number of batches
            return count
        return count - max(0, int(epochs._steps_seen - epochs._num_batches))

    def follow(self, listener: EventListener) -> None:
        """Call `listener` at every event, until `leave`."""
        callbacks = self._callbacks()
        assert callbacks is not None
        listeners = callbacks.__dict__.setdefault(_LISTENERS, [])
        if not listeners:
            for event in EVENTS:
                setattr(callbacks, event, _observed(event, callbacks, listeners))
        listeners.append(listener)

    def leave(self, listener: EventListener) -> None:
        """Undo `follow`. The last listener to leave removes the wrapping. A second call does nothing."""
        callbacks = self._callbacks()
        listeners = None if callbacks is None else callbacks.__dict__.get(_LISTENERS)
        if not listeners or not any(other is listener for other in listeners):
            return
        listeners[:] = [other for other in listeners if other is not listener]
        if not listeners:
            for name in (*EVENTS, _LISTENERS):
                callbacks.__dict__.pop(name, None)

    def when_forgotten(self, function: Callable[[], None]) -> None:
        """Call `function` when the `CallbackList` is freed: after a failed fit, as soon as its traceback is freed."""
        callbacks = self._callbacks()
        if callbacks is not None:
            weakref.finalize(callbacks, function).atexit = False


def _observed(event: str, callbacks: Any, listeners: list[EventListener]) -> Callable[..., None]:
    """The method that replaces `event` and calls the listeners. It runs at every step, so it does as little as possible."""
    plain = getattr(type(callbacks), event)
    owner = weakref.ref(callbacks)  # no reference cycle, so that the list is freed as soon as nobody uses it
    has_index = event not in _WITHOUT_INDEX

    def observed(index: int, logs: Any = None) -> None:
        start = perf_counter_ns()
        for listener in listeners:
            listener.before(event, index, logs, start)
        try:
            plain(owner(), index, logs) if has_index else plain(owner(), logs)
        finally:
            end = perf_counter_ns()
            for listener in listeners:
                listener.after(event, end)

    return observed if has_index else partial(observed, 0)
