"""A thread that makes items ahead of the thread that takes them, up to the number that `ask` allows.

Nothing is made before the first `ask`, so a source that was asked for one batch has read only one. `take` raises the exception
of making its item. Imports no framework.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar, cast

from abreast.keras_private import global_state
from abreast.keras_private.folder import FOLDER
from abreast.threads import line_of

Item = TypeVar("Item")

_JOIN_SECONDS = 5.0
_GO, _END = True, False


class Closed(Exception):
    """`close` was called while `take` waited."""


class Ahead(Generic[Item]):
    """Items of `make`, in order, made in a thread called `name`. One thread calls `take`; any thread may call `close`."""

    def __init__(self, make: Callable[[], Item], name: str) -> None:
        self.name = name
        self.num_asked = 0
        self.num_taken = 0
        self._make = make
        self._turns: SimpleQueue[bool] = SimpleQueue()
        self._made: SimpleQueue[tuple[Item | None, BaseException | None]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._error: BaseException | None = None

    def ask(self, total: int) -> None:
        """Allow the thread to make items until it has made `total` in all."""
        if self._closed or self._error is not None:
            return
        if self._thread is None:
            self._start()
        while self.num_asked < total:
            self.num_asked += 1
            self._turns.put(_GO)

    @property
    def waits(self) -> bool:
        """Whether an item was asked for and not taken yet."""
        return self.num_asked > self.num_taken

    def take(self, while_waiting: Callable[[], None] | None = None, every_seconds: float = 1.0) -> Item:
        """The next item, or the exception of making it. `while_waiting` is called every `every_seconds`, and may raise."""
        if self._error is not None:
            raise self._error
        self.ask(self.num_taken + 1)
        item, error = self._next(while_waiting, every_seconds)
        self.num_taken += 1
        if error is None:
            return cast(Item, item)
        if not isinstance(error, StopIteration):
            self._error = StopIteration()  # like a generator, a source that has raised is at its end
            raise error
        self._error = error
        raise StopIteration

    def close(self) -> bool:
        """End the thread; return whether it has ended. A thread inside a source ends when the source returns."""
        self._closed = True
        if self._thread is None:
            return True
        self._turns.put(_END)
        self._made.put((None, Closed()))
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)
        return not self._thread.is_alive()

    def left(self) -> Iterator[tuple[Item | None, BaseException | None]]:
        """After `close`: the items made and not taken, in order, as `(item, None)` or `(None, exception)`."""
        while True:
            try:
                item, error = self._made.get_nowait()
            except Empty:
                return
            if not isinstance(error, Closed):
                yield item, error

    def where(self) -> str:
        """The line that the thread executes, outside Keras and abreast if possible."""
        return "" if self._thread is None else line_of(self._thread, FOLDER)

    def _next(self, while_waiting: Callable[[], None] | None, every_seconds: float) -> Any:
        try:
            return self._made.get_nowait()
        except Empty:
            pass
        while True:
            try:
                return self._made.get(timeout=every_seconds if while_waiting else None)
            except Empty:
                assert while_waiting is not None
                while_waiting()

    def _start(self) -> None:
        keras_state = {  # a copy, because Keras keeps its state per thread
            name: list(value) if isinstance(value, list) else value
            for name, value in global_state.GLOBAL_STATE_TRACKER.__dict__.items()
        }
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._run, keras_state), name=self.name, daemon=True)
        thread.start()
        self._thread = thread  # only now, because `close` joins it, in any thread and at any moment

    def _run(self, keras_state: dict[str, Any]) -> None:
        global_state.GLOBAL_STATE_TRACKER.__dict__.update(keras_state)
        while self._turns.get() and not self._closed:
            try:
                item = self._make()
            except BaseException as error:  # raised again by `take`
                self._made.put((None, error))
                return
            self._made.put((item, None))
            del item
        self._made.put((None, Closed()))  # also for a `close` that found no thread yet


class Patience:
    """Limits of a step's wait for its batch: a message after `warn_seconds`, an error after `timeout_seconds`."""

    def __init__(self, warn_seconds: float, timeout_seconds: float | None) -> None:
        self.warn_seconds = warn_seconds
        self.timeout_seconds = timeout_seconds

    def waiting(self, say: Callable[[float], None], end: Callable[[float], Exception]) -> Callable[[], None]:
        """A function to call repeatedly during one wait; it calls `say` once, or raises `end`, with the seconds waited."""
        began = time.monotonic()
        said = False

        def check() -> None:
            nonlocal said
            waited = time.monotonic() - began
            if self.timeout_seconds is not None and waited >= self.timeout_seconds:
                raise end(waited)
            if waited >= self.warn_seconds and not said:
                said = True
                say(waited)

        return check
