"""A `fit` that writes checkpoints and goes on from one: two callbacks around those of the user, and what they decide.

A checkpoint is taken before a step, when the callbacks of the step before have run, and before an epoch; one that is due waits
for the next update of the weights, where devices keep the gradients that they accumulate apart. An epoch that an
earlier run has begun goes on after its last step; Keras's loop repeats that step without training (`keras_private/epochs.py`).
Not here: which `fit` of the script this is (`which_fit.py`), what a checkpoint holds (`moment.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import keras

from abreast.backend import current_backend
from abreast.checkpoints import optimizers, stop, variables
from abreast.checkpoints.agreement import NOTHING, Agreement, Answer
from abreast.checkpoints.moment import RunningFit
from abreast.checkpoints.snapshot import Snapshot
from abreast.feed import DoneStep, Feed
from abreast.keras_private.callback_lists import default
from abreast.keras_private.epochs import notes_of_logs, noting
from abreast.stderr import tell_once

_ADDED_UP = (
    "the signal came between two updates of the weights: the gradients that devices have accumulated are saved as one sum, and "
    "the training goes on to rounding, not exactly, as without the signal"
)
Save = Callable[[Snapshot, bool], str | None]  # a state, and whether to wait until it is on the disk; its name if it is


class KeptFit:
    """One `fit`. `resume` is the state to go on from, or None.

    `opens` is called before the callbacks of the user; `parts` makes the parts that are saved, of a built model, after them.
    """

    def __init__(
        self,
        agreement: Agreement,
        save: Save,
        resume: Snapshot | None,
        opens: Callable[[Any], None],
        parts: Callable[[Any], RunningFit],
    ) -> None:
        self.first, self.last = _First(self), _Last(self) if resume is None else _LastOfResumed(self)
        self._agreement = agreement
        self._save = save
        self._resume = resume
        self.opens = opens
        self._parts = parts
        self._epoch = self._steps = 0
        self._is_due = False
        self._before_validation: Snapshot | None = None
        self._weights_at_end = 0
        self._thread = threading.get_ident()

    def fit_begins(self, model: Any) -> None:
        """All callbacks have had their `on_train_begin`."""
        self._running = self._parts(model)
        self._running.train.step_begins = self.step_begins
        if self._resume is not None:
            self._running.hold()
            model._initial_epoch = self._resume.values["epoch"]
            self._running.go_to(self._resume)

    def noting(self, model: Any) -> AbstractContextManager[None]:
        """Surrounds the `fit`: its steps are counted, and not done again."""
        return noting(model, notes_of_logs(self._step_done, self._done_logs, DoneStep))

    def epoch_begins(self, epoch: int) -> None:
        has_trained, self._epoch, self._steps = self._steps > 0, epoch, 0
        self._before_validation = None
        if has_trained:  # `History` has the epoch before, too
            self._take_if_due(self._agreement.answer(at_end=True), lambda: self._running.read(epoch, 0))
        if self._resume is not None:
            self._running.write(self._resume)
            if not self._resume.values["steps"]:
                self._resume = None

    def step_begins(self, step: int) -> None:
        """All steps before this one are done, their callbacks have run, and no batch of this one is taken."""
        if self._resume is not None:
            self.put_back_again()
        self._steps = step
        if step and ((answer := self._agreement.answer()) is not NOTHING or self._is_due):
            self._take_if_due(answer, lambda: self._running.read(self._epoch, step))

    def validation_begins(self) -> None:
        self.put_back_again(epoch_over=True)
        small, model = self._running.read_small(self._epoch, self._steps, validating=True), self._running.model
        self._before_validation = Snapshot(
            {**variables.read_changed_by_validation(model), **small.tensors}, small.values
        )
        self._take_if_due(self._agreement.answer(), lambda: self._running.with_variables(small))

    def validation_step_begins(self) -> None:
        """In a validation, only a signal takes a checkpoint: the weights, and all else as it was before the validation."""
        before = self._before_validation
        self._agreement.validation_step_done()
        if before is None or (asked := self._agreement.answer().asked) is None:
            return
        self._store(self._running.with_variables(before), asked)

    def put_back_again(self, epoch_over: bool = False) -> None:
        """The callbacks of the step that was repeated have run: what they changed is put back."""
        if self._resume is not None:
            self._running.write(self._resume, move=False, epoch_over=epoch_over)
            self._steps = self._resume.values["steps"]
            self._resume = None

    def repeated_step_ends(self) -> None:
        """Callbacks of the step that is repeated have run: none of them ends the epoch there."""
        if self._resume is not None and threading.get_ident() == self._thread:
            self._running.model.stop_training = self._resume.values["stop_training"]

    def training_ends(self) -> None:
        """No callback of the user has had its `on_train_end` yet."""
        self._weights_at_end = variables.checksum(self._running.model)

    def finished(self) -> Snapshot:
        """The state of the `fit` that has ended; `changed_at_end`: whether callbacks have set its weights then."""
        state = self._running.read(self._epoch + 1, 0)
        changed = self._weights_at_end != variables.checksum(self._running.model)
        return Snapshot(state.tensors, {**state.values, "changed_at_end": changed})

    def _step_done(self, logs: Any) -> None:
        self._running.logs = logs
        self._running.attributes.step_done()
        number = self._running.model.steps_per_execution
        self._steps += number
        self._agreement.steps_done(number)

    def _done_logs(self) -> dict[str, Any]:
        """The logs of the step that is repeated. The callbacks have run that act at its begin."""
        self.repeated_step_ends()
        logs: dict[str, Any] = self._running.logs
        return logs

    def _take_if_due(self, answer: Answer, read: Callable[[], Snapshot]) -> None:
        self._is_due |= answer.is_due
        apart = (answer.asked or self._is_due) and current_backend().instruments.adds_up(self._running.model)
        if answer.asked and apart:
            tell_once(_ADDED_UP)
        if answer.asked or (self._is_due and not apart):
            self._store(read(), answer.asked)

    def _store(self, snapshot: Snapshot, asked: str | None) -> None:
        self._is_due = False
        self._agreement.saved()
        name = self._save(snapshot, asked is not None)
        if asked is not None:
            stop.end(name)


class _WithoutBatches(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Has no hooks around batches. Keras's own methods that do nothing take two calls each, at every step."""

    @default  # type: ignore[untyped-decorator]
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        pass

    @default  # type: ignore[untyped-decorator]
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        pass


class _First(_WithoutBatches):
    """Runs before the callbacks of the user. Without hooks at the ends of batches, Keras need not wait for each step."""

    def __init__(self, fit: KeptFit) -> None:
        super().__init__()
        self._fit = fit

    def on_train_begin(self, logs: Any = None) -> None:
        self._fit.opens(self._model)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._fit.epoch_begins(epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._fit.put_back_again(epoch_over=True)

    def on_train_end(self, logs: Any = None) -> None:
        self._fit.training_ends()

    def on_test_begin(self, logs: Any = None) -> None:
        self._fit.validation_begins()

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._fit.validation_step_begins()


class _Last(_WithoutBatches):
    """Runs after the callbacks of the user."""

    def __init__(self, fit: KeptFit) -> None:
        super().__init__()
        self._fit = fit

    def on_train_begin(self, logs: Any = None) -> None:
        self._fit.fit_begins(self._model)


class _LastOfResumed(_Last):
    """Runs at the ends of batches too, but Keras need not wait for each step because of it."""

    async_safe = True  # Keras then calls it in another thread, where no callback of the user has such a hook

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._fit.repeated_step_ends()


def build(model: Any, feed: Feed, saved: Snapshot) -> None:
    """Make the variables that the first step would make, as it had where a state was saved."""
    current_backend().instruments.build(model, feed.first_batch)
    optimizers.build(model, saved.values["optimizers"])
