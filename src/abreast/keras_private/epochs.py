"""The epochs of a `fit` with checkpoints: a call before each step, and first steps that an earlier run has done.

Keras's `EpochIterator` counts the steps of an epoch, and keeps one iterator over several epochs if `steps_per_epoch` is set.
Keras requests a step from it after the callbacks of the previous step. On PyTorch, the step's batch is taken right after that, on
JAX and TensorFlow inside the step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from abreast.keras_private.trainers import EpochIterator

__all__ = ["KeptEpoch", "install", "known_batches", "noted", "notes_of_logs", "noting"]


@dataclass(frozen=True)
class KeptEpoch:
    """The part of an epoch that an earlier run has done: steps of the epoch, and batches of the iterator that it used.

    `step_begins` is called with the number of each step that trains, before its batch is taken. Keras's loop needs at least one
    step, so it repeats the last finished step without training, and passes `stand_in` to it. `known_batches` is the length of the
    source that the earlier run found.
    """

    step_begins: Callable[[int], None]
    steps: int = 0
    batches: int = 0
    known_batches: int | None = None
    stand_in: Any = None


@functools.cache
def install(begins: Callable[[Any], KeptEpoch | None]) -> None:
    """Make each epoch call `begins` with Keras's `EpochIterator` to learn where it begins. Runs once."""
    kind: Any = EpochIterator
    plain = kind._enumerate_iterator

    @functools.wraps(plain)
    def enumerate_iterator(self: Any) -> Iterator[Any]:
        steps: Iterator[Any] = plain(self)
        kept = begins(self)
        if kept is None:
            return steps
        if self._num_batches is None:
            self._num_batches = kept.known_batches
        return _kept_steps(self, steps, kept)

    kind._enumerate_iterator = enumerate_iterator


def _kept_steps(epochs: Any, steps: Iterator[Any], kept: KeptEpoch) -> Iterator[Any]:
    begun = False
    for begin, end, iterator in steps:
        if not begun:
            begun = True
            if epochs.steps_per_epoch is not None:
                epochs._steps_seen += kept.batches - kept.steps
            if kept.steps:
                yield kept.steps - epochs.steps_per_execution, kept.steps - 1, kept.stand_in
        if begin >= kept.steps:
            kept.step_begins(begin)
            yield begin, end, iterator


def known_batches(epochs: Any) -> int | None:
    """The number of batches of a source, if Keras knows it already."""
    number: int | None = epochs._num_batches
    return number


Note = Callable[
    [Callable[..., Any], tuple[Any, ...]], Any
]  # called with a step and its arguments; returns the result for Keras

_notes: dict[int, Note] = {}  # by identity of a model, which `noting` keeps alive


def noted(model: Any, step: Callable[..., Any]) -> Callable[..., Any]:
    """A training step that calls the note of the `noting` around it. A `fit` may make a model's steps again in the middle."""

    def step_or_note(*arguments: Any) -> Any:
        note = _notes.get(id(model))
        return step(*arguments) if note is None else note(step, arguments)

    return step_or_note


@contextmanager
def noting(model: Any, note: Note | None) -> Iterator[None]:
    """Inside, `note` calls the training steps of a model; with None, they run directly."""
    before = _notes.pop(id(model), None)
    if note is not None:
        _notes[id(model)] = note
    try:
        yield
    finally:
        _notes.pop(id(model), None)
        if before is not None:
            _notes[id(model)] = before


def notes_of_logs(
    begins: Callable[[], None], note: Callable[[Any], None], done_logs: Callable[[], dict[str, Any]], stand_in: type
) -> Note:
    """A `Note` that calls `begins` before steps, and passes on their logs.

    A step with a stand-in for its batch does not train: it was done before. Keras on JAX also passes the state, and expects it
    back.
    """

    def call(step: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if isinstance(arguments[-1], stand_in):
            logs = done_logs()
            return logs if len(arguments) == 1 else (logs, arguments[0])
        begins()
        result = step(*arguments)
        note(result[0] if len(arguments) == 2 else result)
        return result

    return call
