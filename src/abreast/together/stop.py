"""Agreement on `stop_training`: if any process wants to stop, all stop after the same batch or epoch.

Processes agree at the end of each epoch. They also agree after each batch if a callback's code shows that it may stop in the
middle of an epoch. Any other stop in the middle of an epoch, for example by a signal handler, waits for the epoch's end. Stops by
Keras's own callbacks take effect at once, because the logs are the same everywhere.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from types import CodeType, FrameType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import keras

from abreast.backend.contract import Job
from abreast.keras_private.callback_lists import called_at_once
from abreast.keras_private.modules import is_keras_or_ours, module_of
from abreast.stderr import tell_once

_FLAG = "stop_training"
_AT_ENDS = ("on_epoch_end", "on_train_end")  # hooks that never run in the middle of an epoch
_running: WeakKeyDictionary[Any, AgreedStop] = WeakKeyDictionary()


class AgreedStop(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """The last callback of a `fit` of several processes."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job = job
        self._wants = False  # whether a stop waits for the end of this epoch
        self.waits = False  # whether a stop now would have to wait

    @staticmethod
    def of(job: Job, after_batches: bool) -> AgreedStop:
        return _AgreedAfterBatches(job) if after_batches else AgreedStop(job)

    def watch(self, model: Any, until_end: ExitStack) -> None:
        """Note the model whose `fit` begins."""
        _install()
        self.set_model(model)
        _running[model] = self
        until_end.callback(_running.pop, model, None)

    def join(self, callbacks: Any, until_end: ExitStack) -> None:
        """Become the last callback of a `CallbackList` until the call's end."""
        until_end.enter_context(called_at_once(callbacks))
        callbacks.callbacks.append(self)
        until_end.callback(self._leave, callbacks)

    def _leave(self, callbacks: Any) -> None:
        callbacks.callbacks = [each for each in callbacks.callbacks if each is not self]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.waits = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.waits = False
        self.agree("ends an epoch")

    def on_train_end(self, logs: Any = None) -> None:
        self._job.exchange("ends its training", b"")  # waits until rank 0 has written its files

    def agree(self, doing: str) -> None:
        own = b"stop" if self._wants or self._model.stop_training else b""
        self._wants = False
        if any(self._job.exchange(doing, own)):
            self._model.stop_training = True

    def put_off(self) -> None:
        """Delay a stop until the end of the epoch."""
        self._wants = True
        self._model.__dict__[_FLAG] = False
        tell_once(
            "model.stop_training was set in the middle of an epoch, and takes effect at its end, in all processes\n"
            "hint: set it in a callback's on_train_batch_end; the processes then agree after each batch"
        )


class _AgreedAfterBatches(AgreedStop):
    """An `AgreedStop` that also agrees after each batch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        pass

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.agree("ends a batch")


def may_stop_between_batches(callback: Any) -> bool:
    """Whether the code of a user's callback names `stop_training` in a function that may run in the middle of an epoch."""
    return any(_names_flag(function.__code__) for name, function in _functions(callback) if name not in _AT_ENDS)


def _functions(callback: Any) -> Iterator[tuple[str, FunctionType]]:
    """The functions of a callback by name, except Keras's and ours. A `LambdaCallback` keeps the user's as attributes."""
    owners = [vars(callback), *(vars(kind) for kind in type(callback).__mro__)]
    for owner in owners:
        for name, value in owner.items():
            function = value
            while isinstance(function, functools.partial):
                function = function.func
            function = getattr(function, "__func__", function)
            if isinstance(function, FunctionType) and not is_keras_or_ours(module_of(function)):
                yield name, function


def _names_flag(code: CodeType) -> bool:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return _FLAG in (*code.co_names, *code.co_consts) or any(map(_names_flag, inner))


class _Flag:
    """`Model.stop_training`: Keras's `fit` reads a delayed stop as False; other code reads the value that was set last."""

    def __init__(self) -> None:
        self._of_keras: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # whether Keras's own code set it last

    def __get__(self, model: Any, owner: Any = None) -> Any:
        if model is None:
            return self
        try:
            value = model.__dict__[_FLAG]
        except KeyError:
            raise AttributeError(_FLAG) from None
        running = _running.get(model) if value else None
        if running is None or not running.waits or self._of_keras.get(model) or not _is_fit(sys._getframe(1)):
            return value
        running.put_off()
        return False

    def __set__(self, model: Any, value: Any) -> None:
        model.__dict__[_FLAG] = value
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_name == "__setattr__":
            frame = frame.f_back
        self._of_keras[model] = frame is not None and is_keras_or_ours(str(frame.f_globals.get("__name__")))


def _is_fit(frame: FrameType) -> bool:
    return frame.f_code.co_name == "fit" and is_keras_or_ours(str(frame.f_globals.get("__name__")))


@functools.cache
def _install() -> None:
    model: Any = keras.Model
    model.stop_training = _Flag()
