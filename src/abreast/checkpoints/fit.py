"""A `fit` that writes checkpoints and continues from one: two callbacks around those of the user, and their decisions.

A checkpoint is taken before a step, after the callbacks of the previous step, and before an epoch. If devices keep accumulated
gradients separately, a checkpoint waits for the next update of the weights. An epoch that an earlier run began continues after
its last finished step; Keras's loop repeats that step without training (`keras_private/epochs.py`). Not here: the number of the
`fit` in the script (`which_fit.py`), the content of a checkpoint (`moment.py`).
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
Save = Callable[[Snapshot, bool], str | None]  # of a state, and whether to wait for the disk; returns its name


class KeptFit:
    """One `fit`. `resume` is the state to continue from, or None.

    `opens` is called before the user's callbacks. After them, `parts` makes the parts of a built model that are saved.
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
        """Begin the `fit`, after all callbacks had their `on_train_begin`."""
        self._running = self._parts(model)
        self._running.train.step_begins = self.step_begins
        if self._resume is not None:
            self._running.hold()
            model._initial_epoch = self._resume.values["epoch"]
            self._running.go_to(self._resume)

    def noting(self, model: Any) -> AbstractContextManager[None]:
        """A context for the `fit`: it counts steps, and repeats none that is done."""
        return noting(model, notes_of_logs(self._call_begins, self._step_done, self._done_logs, DoneStep))

    def epoch_begins(self, epoch: int) -> None:
        has_trained, self._epoch, self._steps = self._steps > 0, epoch, 0
        self._before_validation = None
        if has_trained:  # `History` includes the previous epoch now
            self._take_if_due(self._agreement.answer(at_end=True), lambda: self._running.read(epoch, 0))
        if self._resume is not None:
            self._running.write(self._resume)
            if not self._resume.values["steps"]:
                self._resume = None

    def step_begins(self, step: int) -> None:
        """Take a checkpoint if one is due: earlier steps and their callbacks are done, and this step's batch is not taken yet."""
        if self._resume is not None:
            if self._resume.values.get("validating"):  # all steps are done: Keras only finds the end of the source
                return
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
        """In a validation, only a signal causes a checkpoint: its state is that from before the validation, with the weights."""
        before = self._before_validation
        self._agreement.validation_step_done()
        if before is None or (asked := self._agreement.answer().asked) is None:
            return
        self._store(self._running.with_variables(before), asked)

    def put_back_again(self, epoch_over: bool = False) -> None:
        """Restore the saved state again, after the callbacks of the repeated step may have changed it."""
        if self._resume is not None:
            self._running.write(self._resume, move=False, epoch_over=epoch_over)
            self._steps = self._resume.values["steps"]
            self._resume = None

    def repeated_step_ends(self) -> None:
        """Keep callbacks of the repeated step from ending the epoch there."""
        if self._resume is not None and threading.get_ident() == self._thread:
            self._running.model.stop_training = self._resume.values["stop_training"]

    def training_ends(self) -> None:
        """Note the weights before the user's callbacks get their `on_train_end`."""
        self._weights_at_end = variables.checksum(self._running.model)

    def finished(self) -> Snapshot:
        """The state of the ended `fit`. Its value `changed_at_end`: whether callbacks set weights in `on_train_end`."""
        state = self._running.read(self._epoch + 1, 0)
        changed = self._weights_at_end != variables.checksum(self._running.model)
        return Snapshot(state.tensors, {**state.values, "changed_at_end": changed})

    def _call_begins(self) -> None:
        self._running.attributes.compiled.begins()

    def _step_done(self, logs: Any) -> None:
        self._running.logs = logs
        self._running.attributes.compiled.done()
        number = self._running.model.steps_per_execution
        self._steps += number
        self._agreement.steps_done(number)

    def _done_logs(self) -> dict[str, Any]:
        """The logs of the repeated step. Callbacks at its beginning have run."""
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
    """A callback without hooks around batches: Keras's empty methods would cost two calls each at every step."""

    @default  # type: ignore[untyped-decorator]
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        pass

    @default  # type: ignore[untyped-decorator]
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        pass


class _First(_WithoutBatches):
    """Runs before the user's callbacks. It has no hooks at the ends of batches, so Keras does not wait for each step."""

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
    """Runs after the user's callbacks."""

    def __init__(self, fit: KeptFit) -> None:
        super().__init__()
        self._fit = fit

    def on_train_begin(self, logs: Any = None) -> None:
        self._fit.fit_begins(self._model)


class _LastOfResumed(_Last):
    """Runs at the ends of batches too, but does not make Keras wait for each step."""

    async_safe = True  # Keras calls it in another thread, unless a callback of the user has such a hook

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._fit.repeated_step_ends()


def build(model: Any, feed: Feed, saved: Snapshot) -> None:
    """Make the variables that the first step would make, because the saved run had made them."""
    current_backend().instruments.build(model, feed.first_batch)
    optimizers.build(model, saved.values["optimizers"])
