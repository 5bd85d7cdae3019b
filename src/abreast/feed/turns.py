"""What a source must not do ahead of its step: read variables of the model in training, or call a placed model.

There its thread waits until the step of the batch that it reads has come. Not here: who comes when (`pipeline.py`). Imports
Keras.
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
    """In the block, a source runs in this thread."""
    _watch_variables()
    _here.turn = turn
    try:
        yield
    finally:
        _here.turn = None


def wait_for_turn(why: str) -> None:
    """Called in a source's thread: go on when the step of its batch has come."""
    turn: Turn | None = getattr(_here, "turn", None)
    if turn is not None:
        turn.wait(why)


@functools.cache
def _watch_variables() -> None:
    """Lead `value`, by which all of Keras reads a variable, past the turn of the thread that reads it. Once."""
    plain: Any = keras.Variable.value
    read: Callable[[Any], Any] = plain.fget

    def value(self: Any) -> Any:
        turn: Turn | None = getattr(_here, "turn", None)
        if turn is not None and turn.concerns(self):
            turn.wait("the data source reads variables of the model in training")
        return read(self)

    keras.Variable.value = property(value, plain.fset, plain.fdel, plain.__doc__)


def variables_of(model: Any) -> set[int]:
    """The identities of all variables that a step of a model may change."""
    optimizer = getattr(model, "optimizer", None)
    owned = [*model.variables, *model.metrics_variables, *(optimizer.variables if optimizer is not None else [])]
    return set(map(id, owned))
