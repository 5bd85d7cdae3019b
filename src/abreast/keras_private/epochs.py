"""The epochs of a `fit` that goes on where an earlier run was: their first steps are done, and Keras's counts begin there.

Keras's `EpochIterator` counts the steps of an epoch, and keeps one iterator over several epochs where `steps_per_epoch` is set.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from abreast.keras_private.trainers import EpochIterator

__all__ = ["Done", "install", "known_batches", "step_noting_logs"]


@dataclass(frozen=True)
class Done:
    """What an earlier run has done: steps of the epoch, and batches of the iterator that it used.

    `stand_in` is what Keras's `fit` hands to the last of these steps, which it repeats without training: its loop needs one.
    `known_batches` is the length of the source as the earlier run has found it.
    """

    steps: int
    batches: int
    known_batches: int | None
    stand_in: Any


@functools.cache
def install(begins: Callable[[Any], Done | None]) -> None:
    """Let each epoch ask `begins`, with Keras's iterator of epochs, where it begins. Runs once."""
    kind: Any = EpochIterator
    plain = kind._enumerate_iterator

    @functools.wraps(plain)
    def enumerate_iterator(self: Any) -> Iterator[Any]:
        done = begins(self)
        if done is not None and self._num_batches is None:
            self._num_batches = done.known_batches
        steps = plain(self)
        return steps if done is None else _after(self, steps, done)

    kind._enumerate_iterator = enumerate_iterator


def _after(epochs: Any, steps: Iterator[Any], done: Done) -> Iterator[Any]:
    begun = False
    for begin, end, iterator in steps:
        if not begun:
            begun = True
            if epochs.steps_per_epoch is not None:
                epochs._steps_seen += done.batches - done.steps
            if done.steps:
                yield done.steps - epochs.steps_per_execution, done.steps - 1, done.stand_in
        if begin >= done.steps:
            yield begin, end, iterator


def known_batches(epochs: Any) -> int | None:
    """The number of batches of a source, as Keras knows it by now."""
    number: int | None = epochs._num_batches
    return number


def step_noting_logs(
    step: Callable[..., Any], note: Callable[[Any], None], done_logs: Callable[[], dict[str, Any]], stand_in: type
) -> Callable[..., Any]:
    """A `train_function` that notes its logs, and trains nothing where it gets a stand-in for the batch of a step that is done.

    Keras on JAX passes it the state too, and expects it back.
    """

    def noting(*arguments: Any) -> Any:
        if isinstance(arguments[-1], stand_in):
            logs = done_logs()
            return logs if len(arguments) == 1 else (logs, arguments[0])
        result = step(*arguments)
        note(result[0] if len(arguments) == 2 else result)
        return result

    return noting
