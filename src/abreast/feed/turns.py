"""Waits of a source that is read ahead, before it reads variables of the model in training or calls a placed model.

Its thread waits for the step of the batch that it reads. Not here: the order of steps and reads (`pipeline.py`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import keras


class Turn(Protocol):
    """A read that may wait for its step."""

    def wait(self, why: str) -> None: ...

    def concerns(self, variable: Any) -> bool: ...


_here = threading.local()


@contextmanager
def taking(turn: Turn) -> Iterator[None]:
    """Inside, a source runs in this thread."""
    _watch_variables()
    _here.turn = turn
    try:
        yield
    finally:
        _here.turn = None


def wait_for_turn(why: str) -> None:
    """Called in a source's thread: wait until the step of its batch asks for the batch."""
    turn: Turn | None = getattr(_here, "turn", None)
    if turn is not None:
        turn.wait(why)


@functools.cache
def _watch_variables() -> None:
    """Make `keras.Variable.value`, which every read in Keras uses, wait for the turn of the reading thread. Runs once."""
    plain: Any = keras.Variable.value
    read: Callable[[Any], Any] = plain.fget

    def value(self: Any) -> Any:
        turn: Turn | None = getattr(_here, "turn", None)
        if turn is not None and turn.concerns(self):
            turn.wait("the data source reads variables of the model in training")
        return read(self)

    keras.Variable.value = property(value, plain.fset, plain.fdel, plain.__doc__)


def variables_of(model: Any) -> set[int]:
    """Identities of all variables that a step of a model may change."""
    optimizer = getattr(model, "optimizer", None)
    owned = [*model.variables, *model.metrics_variables, *(optimizer.variables if optimizer is not None else [])]
    return set(map(id, owned))
