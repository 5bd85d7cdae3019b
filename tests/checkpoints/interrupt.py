"""A `fit` that is interrupted and begun again, as by a new process. For the bodies of tests: importing this loads Keras."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import keras

from abreast.checkpoints import which_fit

Result = TypeVar("Result")


class Interrupt(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Counts the steps of this process, and raises `InterruptedError` before step number `at`."""

    def __init__(self, at: int | None) -> None:
        super().__init__()
        self.at, self.steps = at, 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self.steps == self.at:
            raise InterruptedError
        self.steps += 1

    def get_state(self) -> int:
        return 0

    def set_state(self, state: int) -> None:
        pass


def until_it_ends(run: Callable[[int, Interrupt], Result], interrupted_at: Sequence[int | None]) -> Result:
    """The result of a run that is interrupted before so many steps, and begun again each time. `run` gets its number."""
    for number, at in enumerate(interrupted_at):
        which_fit.as_in_a_new_process()
        try:
            run(number, Interrupt(at))
        except InterruptedError:
            continue
        raise AssertionError("it was not interrupted")
    which_fit.as_in_a_new_process()
    return run(len(interrupted_at), Interrupt(None))
