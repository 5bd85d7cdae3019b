"""The link between `ImageRecords` and the epochs of a `fit`, also if `initial_epoch` or `BackupAndRestore` sets the first one.

Each `fit` on records gets a callback that learns the epochs, and Keras's iterator of an epoch takes only the epoch's remaining
steps. Not here: the batches of an epoch (`fit_epochs.py`).
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any
from weakref import WeakSet

import keras

from abreast.errors import DataError
from abreast.feed import Feed
from abreast.feed.own_callbacks import listed
from abreast.keras_private import backups
from abreast.keras_private.trainers import EpochIterator
from abreast.records.loading.fit_epochs import FitEpochs, num_validations
from abreast.records.loading.loader import Loader
from abreast.records.loading.sampling import Place
from abreast.stderr import tell_for_all

_FRAMES = 6  # largest number of frames between a callback and its `fit`
_LATE: WeakSet[FollowFit] = WeakSet()  # for fits that were looked up too early to be wrapped, until their end
_NOTE = "abreast_records"  # the entry of a backup's file with the state of the records


class FollowFit(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Moves records to the first batch of a `fit`, and adds the records' place to backups."""

    def __init__(self, records: Loader, held_out: Loader | None, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.records, self.held_out = records, held_out
        steps = _least(arguments.get("steps_per_epoch"), keras.config.max_steps_per_epoch())
        at_once = int(getattr(arguments["self"], "steps_per_execution", None) or 1)
        self.steps = None if steps is None else -(-steps // at_once) * at_once  # Keras runs whole executions
        self.validation_steps = arguments.get("validation_steps")
        self.validation_freq = arguments.get("validation_freq", 1)
        self.backups = [each for each in listed(arguments.get("callbacks")) if _is_backup(each)]
        records._fit_epochs = None
        self.until_end = ExitStack()  # closed when the `fit` ends

    def join(self, callbacks: Any) -> Any:
        """The callbacks of the `fit`, with this one in front. Until the `fit` ends, backups include the records' place."""
        for backup in self.backups:
            self.until_end.enter_context(backups.noting(backup, self.note))
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            return [self, *listed(callbacks)]
        callbacks.callbacks.insert(0, self)
        self.until_end.callback(self._leave, callbacks)
        return callbacks

    def _leave(self, callbacks: Any) -> None:
        # A new list: Keras may be calling the callbacks of this one.
        callbacks.callbacks = [each for each in callbacks.callbacks if each is not self]

    @property
    def epochs(self) -> FitEpochs | None:
        """The places of this `fit`; None before its first epoch begins."""
        return self.records._fit_epochs

    def on_train_begin(self, logs: Any = None) -> None:
        self.records._go_to(self.records._begin)  # Keras may have taken the first batch, to build the model

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.epochs is None:
            self._begin(epoch)
        elif not (place := self.epochs.place(epoch)).batch:
            self.records._go_to(place)
        for backup in self.backups:
            backups.begin_epoch(backup, epoch)

    def on_train_end(self, logs: Any = None) -> None:
        self.records._restored = False
        self.until_end.close()

    def _begin(self, epoch: int) -> None:
        place = self._first_place(epoch)
        if place != self.records._begin or (self.records._restored and place.epoch != self._begin_of(epoch).epoch):
            where = f", batch {place.batch} of {len(self.records)}" if place.batch else ""
            tell_for_all(
                f"fit begins with epoch {epoch} (Keras prints Epoch {epoch + 1}), ImageRecords with epoch {place.epoch}{where}, "
                "counted from 0"
            )
        self.records._go_to(place)
        self.records._fit_begins = self.records._fit_epochs = FitEpochs(epoch, place, len(self.records), self.steps)
        if self.held_out is not None and epoch and self.held_out._begin == Place(0, 0) and not self.held_out._restored:
            self.held_out._go_to(Place(self._validations_before(epoch), 0))

    def _first_place(self, epoch: int) -> Place:
        """The place where the records begin: from `restore`, from a backup, or the first epoch of the `fit`."""
        records = self.records
        if records._restored:
            return records._begin
        for backup in self.backups:
            if (saved := backups.read(backup)) is not None:
                return self._place_of(backup, saved, epoch)
        # A second `fit` that begins with epoch 0 continues with new batches.
        return self._begin_of(epoch) if epoch else records._begin

    @property
    def _from_start(self) -> FitEpochs:
        """The epochs of a `fit` that began with epoch 0 and the first batch."""
        return FitEpochs(0, Place(0, 0), len(self.records), self.steps)

    def _begin_of(self, epoch: int) -> Place:
        return self._from_start.place(epoch)

    def _place_of(self, backup: Any, saved: backups.Saved, epoch: int) -> Place:
        """The place of a backup, from the note in it, or from Keras's own numbers."""
        begin = self._begin_of(epoch)
        if (state := saved.get(_NOTE)) is not None:
            try:
                place = self.records._place_of(state)
            except DataError as error:
                tell_for_all(
                    f"the backup is of other batches, so the records begin with epoch {begin.epoch}: {error.message}"
                )
                return begin
            self.records._decoding.restore(state.get("decoder"))
            return place
        steps_done = backups.steps_in(backup, saved)
        if steps_done is None:
            tell_for_all(
                f"the backup does not say whether the first step of epoch {epoch} is done, so that it is done again"
            )
            return begin
        reached, place = self._from_start.after(epoch, steps_done)
        return place if reached == epoch else begin

    def note(self, epoch: int, steps_done: int) -> backups.Saved:
        """The note for a backup: the state of the records, and the epoch of the next step."""
        if self.epochs is None:
            return {}
        epoch, place = self.epochs.after(epoch, steps_done)
        return {"epoch": epoch, _NOTE: self.records.state(place.epoch, place.batch)}

    def _validations_before(self, epoch: int) -> int:
        """The number of earlier epochs of the validation records; 0 if each validation reads only a part of an epoch."""
        assert self.held_out is not None
        part = self.validation_steps and self.validation_steps < len(self.held_out)
        return 0 if part else num_validations(epoch, self.validation_freq)


@functools.cache
def install() -> None:
    """Make every `fit` of Keras follow the records that it gets. Runs once."""
    model: Any = keras.Model
    model.fit = _following(model.fit)
    callbacks: Any = keras.callbacks.CallbackList
    callbacks.on_train_begin = _with_late_records(callbacks.on_train_begin)
    iterator: Any = EpochIterator
    iterator.__iter__ = _with_steps_left(iterator.__iter__)


def _following(plain: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
        records = _records(arguments["x"])
        if records is None:
            return plain(self, *args, **kwargs)
        if any(left.records is records for left in _end_late(records, arguments["callbacks"])):
            records._leave_iterations()
        follow = _follower(records, arguments)
        with follow.until_end:
            arguments["callbacks"] = follow.join(arguments["callbacks"])
            try:
                return plain(*bound.args, **bound.kwargs)
            except BaseException:
                if arguments["x"] is records:  # a staged source ends its iterations itself
                    records._leave_iterations()
                raise
            finally:
                records._fit_begins, records._restored = None, False

    return fit


def _with_late_records(plain: Callable[..., Any]) -> Callable[..., Any]:
    """An `on_train_begin` for a `fit` that Python looked up before this module: `model.fit(abreast.ImageRecords(...))`.

    Python evaluates `model.fit` first and its arguments afterwards, and these import this module.
    """

    @functools.wraps(plain)
    def on_train_begin(self: Any, logs: Any = None) -> Any:
        arguments = _arguments_of_fit(sys._getframe(1), self)
        records = _records(arguments.get("x"))
        _end_late(records, self)
        if records is not None and not any(isinstance(each, FollowFit) for each in self.callbacks):
            follow = _follower(records, {**arguments, "callbacks": self})
            _LATE.add(follow)
            follow.until_end.callback(_LATE.discard, follow)
            follow.join(self)
        return plain(self, logs)

    return on_train_begin


def _end_late(records: Loader | None, callbacks: Any) -> list[FollowFit]:
    """Undo the changes of an earlier `fit` of these records or callbacks, if it was looked up too early and raised.

    Returns the callbacks of such fits. Their iterations continue until the garbage collector or a wrapped `fit` ends them: when
    Keras calls `on_train_begin`, the iterations of the new `fit` may have begun.
    """
    given = listed(callbacks)
    left = [
        follow
        for follow in _LATE
        if follow.records is records or any(each is other for each in given for other in (follow, *follow.backups))
    ]
    for follow in left:
        follow.until_end.close()
    return left


def _arguments_of_fit(frame: FrameType | None, callbacks: Any) -> dict[str, Any]:
    """The variables of Keras's `fit` that calls this `CallbackList`, possibly through other callers."""
    for _ in range(_FRAMES):
        if frame is None:
            break
        if frame.f_code.co_name == "fit" and frame.f_locals.get("callbacks") is callbacks:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def _follower(records: Loader[Any], arguments: dict[str, Any]) -> FollowFit:
    return FollowFit(records, _records(arguments.get("validation_data")), arguments)


def _with_steps_left(plain: Callable[..., Any]) -> Callable[..., Any]:
    """An `__iter__` for Keras's iterator of an epoch that takes only the remaining steps of a `fit`'s first epoch."""

    @functools.wraps(plain)
    def begin(self: Any) -> Any:
        if "_abreast_steps" in vars(self):
            self.steps_per_epoch = vars(self).pop("_abreast_steps")
        records = _records(self.data_adapter)
        epochs = None if records is None else records._fit_begins
        if records is not None and epochs is not None:
            records._fit_begins = None
            if epochs.begin.batch and not _is_due(self.data_adapter):
                self._abreast_steps = self.steps_per_epoch
                self.steps_per_epoch = epochs.steps_left
                self._current_iterator, self._steps_seen = iter(self._get_iterator()), epochs.begin.batch
        return plain(self)

    return begin


def _is_due(adapter: Any) -> bool:
    """Whether a checkpoint determines where the epoch begins."""
    return isinstance(adapter, Feed) and adapter.keeper is not None and adapter.keeper.is_due


def _records(source: Any) -> Loader | None:
    """The records that a source is, or that a staged source reads."""
    source = source.source if isinstance(source, Feed) else source
    return source if isinstance(source, Loader) else None


def _is_backup(callback: Any) -> bool:
    return isinstance(callback, keras.callbacks.BackupAndRestore)


def _least(*numbers: int | None) -> int | None:
    return min((number for number in numbers if number), default=None)
