"""The numbering of a script's `fit` calls: the n-th `fit` continues from the checkpoints of the n-th `fit` of an earlier run.

A `fit` that had ended is not trained again: its last state is restored. Not here: one `fit` (`fit.py`).
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import keras

from abreast import exact, first_use
from abreast.backend.contract import Placement
from abreast.backend.fingerprint import settings
from abreast.checkpoints import fingerprint, generators, lock, rank_generators, stop, variables
from abreast.checkpoints.agreement import Agreement
from abreast.checkpoints.anew import ANEW
from abreast.checkpoints.callback import Checkpoint
from abreast.checkpoints.callback_state import CallbackStates
from abreast.checkpoints.fit import KeptFit, build
from abreast.checkpoints.folder import FolderLock, checkpoint_names, newest_good, remove
from abreast.checkpoints.generators import Generators
from abreast.checkpoints.model_attributes import ModelAttributes
from abreast.checkpoints.model_config import config_of
from abreast.checkpoints.moment import RunningFit
from abreast.checkpoints.names import final_name_of, name_of, prefix_of
from abreast.checkpoints.parts import PartWriter
from abreast.checkpoints.place import Keeper, begins
from abreast.checkpoints.plain import CannotPackError, pack, unpack
from abreast.checkpoints.policy import Policy, default, is_off
from abreast.checkpoints.read import read_checkpoint
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.write import make_checkpoint_folder
from abreast.checkpoints.writer import Writer
from abreast.errors import CheckpointError
from abreast.feed import Feed
from abreast.feed.own_callbacks import listed
from abreast.keras_private import backups, epochs
from abreast.keras_private.data_adapters import note_orders
from abreast.state import kept_random
from abreast.stderr import tell, tell_once

_num_fits: dict[str, int] = {}  # by folder: the number of fits in this process
_interrupted: dict[str, int] = {}  # by folder: the first `fit` of this process that failed
_folders: dict[int, str] = {}  # by thread: the folder of the fit that writes checkpoints now
_beginning = threading.Lock()


def kept(plain: Callable[..., Any], bound: Any, placement: Placement) -> Any:
    """Call Keras's `fit` with its bound arguments, with checkpoints if the user asks for them."""
    policy = _policy(bound.arguments["callbacks"])
    if policy is None:
        return plain(*bound.args, **bound.kwargs)
    if is_off():
        tell_once(
            "checkpoints are off: this command only tries the script, so it neither writes any nor goes on from one"
        )
        return plain(*bound.args, **bound.kwargs)
    if (failed := _interrupted.get(policy.folder)) is not None:
        return _without_checkpoints(plain, bound, _AFTER.format(failed))
    if (where := _beside_another(policy.folder)) is not None:
        return _without_checkpoints(plain, bound, _BESIDE.format(where))
    epochs.install(begins)
    note_orders()
    with ExitStack() as until_end:
        until_end.callback(_folders.pop, threading.get_ident())
        until_end.enter_context(stop.in_fit())
        return _NthFit(policy, bound, placement, until_end).run(plain)


def _beside_another(folder: str) -> str | None:
    """The relation of a new `fit` to a running one, in words; None if it is alone, and then it occupies its folder.

    After a restart, the numbers of two such fits are unknown, and so is the number of fits in a callback or a data source.
    """
    thread = threading.get_ident()
    with _beginning:
        if thread in _folders:
            return "inside of another one"
        if folder in _folders.values():
            return "beside another one, in another thread,"
        _folders[thread] = folder
    return None


_BESIDE = (
    "a fit {} writes no checkpoints: after a restart it runs again, with a model as the script makes it\n"
    "hint: call it after the other fit, if its model has to be kept"
)
_AFTER = (
    "fit {} has failed or was interrupted in this process: the fits that follow here write no checkpoints\n"
    "hint: start the script, or the kernel of the notebook, again, to go on from its last checkpoint"
)


def as_in_a_new_process() -> None:
    """Forget the fits of this process, for tests."""
    _num_fits.clear()
    _interrupted.clear()


def _without_checkpoints(plain: Callable[..., Any], bound: Any, line: str) -> Any:
    tell_once(line)
    with ExitStack() as until_end:
        for each in _own(bound.arguments["callbacks"]):
            _activate(each, until_end)
        return plain(*bound.args, **bound.kwargs)


def say_that_loops_are_not_kept() -> None:
    """Report that loops with `train_on_batch` are not saved. Inside a `fit`, as in a callback, the `fit` saves their changes."""
    if default() is not None and not is_off() and threading.get_ident() not in _folders:
        tell_once(
            "checkpoints do not save loops of the script's own, as with train_on_batch: after a restart they run again from the "
            "beginning\nhint: train with fit, whose train_step may be your own"
        )


def _own(callbacks: Any) -> list[Checkpoint]:
    return [each for each in listed(callbacks) if isinstance(each, Checkpoint)]


def _activate(callback: Checkpoint, until_end: ExitStack) -> None:
    callback.is_active = True
    until_end.callback(setattr, callback, "is_active", False)


def _policy(callbacks: Any) -> Policy | None:
    own = _own(callbacks)
    if len(own) > 1:
        raise CheckpointError(f"fit has {len(own)} abreast.Checkpoint callbacks", "give it one")
    return own[0].policy if own else default()


class _NthFit:
    """One call of `fit` with a policy. In a job, all processes write and read; rank 0 makes and removes checkpoints."""

    def __init__(self, policy: Policy, bound: Any, placement: Placement, until_end: ExitStack) -> None:
        self._policy = policy
        self._until_end = until_end
        self._bound = bound
        self._placement = placement
        self._arguments: dict[str, Any] = bound.arguments
        self._job = placement.backend.job
        self._is_writer = self._job is None or self._job.rank == 0
        self._callbacks = listed(self._arguments["callbacks"])
        for each in _own(self._callbacks):
            _activate(each, until_end)
        if self._is_writer:
            make_checkpoint_folder(Path(policy.folder))
            until_end.enter_context(FolderLock(policy.folder))
        self._number = _num_fits.get(policy.folder, 0) + 1
        if self._is_writer and policy.reset and self._number == 1:
            remove(policy.folder, checkpoint_names(policy.folder))
        self._config = functools.cache(lambda: config_of(self._arguments["self"]))
        self._callback_settings = fingerprint.of_callbacks(self._callbacks)
        self._opening = until_end.enter_context(ExitStack())  # ends after the `on_train_begin` of all callbacks
        self._writer = (
            Writer(policy, self._number) if self._job is None else PartWriter(policy, self._number, self._job)
        )
        until_end.callback(self._writer.close)
        until_end.callback(setattr, self._arguments["self"], "_initial_epoch", None)
        found: tuple[str, Snapshot] | tuple[None, None] = self._found()
        self._name: str | None = found[0]
        self._saved: Snapshot | None = found[1]

    def run(self, plain: Callable[..., Any]) -> Any:
        """Call Keras's `fit`. A call that is refused does not count: a corrected call is the n-th again."""
        try:
            history = self._run(plain)
        except CheckpointError:
            raise
        except BaseException as error:
            _interrupted[self._policy.folder] = self._number
            if isinstance(error, KeyboardInterrupt):
                self._say(self._interruption())
            raise
        _num_fits[self._policy.folder] = self._number
        return history

    def _interruption(self) -> str:
        self._writer.close()
        names = [name for name in checkpoint_names(self._policy.folder) if name.startswith(prefix_of(self._number))]
        place = f"goes on from the checkpoint {names[-1]}" if names else "begins anew: it has no checkpoint yet"
        return f"fit {self._number} was interrupted: a new process {place}"

    def _run(self, plain: Callable[..., Any]) -> Any:
        saved = self._saved
        if saved is not None:
            fingerprint.check_writer(saved.values["fingerprint"], str(self._name))
            generators.write(None, unpack(saved.values["began"], saved.tensors))
        tensors: dict[str, Any] = {}
        self._at_begin = {"began": pack(generators.read(None), "began", tensors)}, tensors
        if saved is not None and self._has_ended(saved):
            return self._replayed(plain, saved)
        if saved is None and self._arguments["initial_epoch"] >= self._epochs:
            return plain(*self._bound.args, **self._bound.kwargs)  # trains nothing
        self._check_last()
        self._line = f"fit {self._number} goes on from the checkpoint {self._name}"
        agreement = Agreement(self._policy.every, self._job, lambda: self._writer.is_busy, self._writer.settle)
        fit = KeptFit(agreement, self._save, saved, self._open, self._parts)
        self._until_end.enter_context(fit.noting(self._arguments["self"]))
        _surround(self._arguments, fit, self._until_end)
        history = plain(*self._bound.args, **self._bound.kwargs)
        self._write_final(fit.finished())
        return history

    def _found(self) -> tuple[str, Snapshot] | tuple[None, None]:
        """The newest good checkpoint of this `fit` that rank 0 finds."""
        found = newest_good(self._policy.folder, prefix_of(self._number)) if self._is_writer else None
        if self._job is None:
            return found or (None, None)
        own = ("" if found is None else found[0], lock.holder_of(self._policy.folder)) if self._is_writer else None
        name, holder = json.loads(self._job.exchange("looks for a checkpoint", json.dumps(own).encode())[0])
        sees = lock.is_held_by(self._policy.folder, holder)
        answers = self._job.exchange("finds the folder of checkpoints", b"yes" if sees else b"")
        if b"" in answers:
            raise CheckpointError(
                f"rank 0 keeps checkpoints in {self._policy.folder}, and rank {answers.index(b'')} sees another folder there",
                "name a folder that all hosts of the job share",
            )
        if not name:
            return None, None
        saved = read_checkpoint(f"{self._policy.folder}/{name}") if found is None else found[1]
        return name, rank_generators.own(saved, self._job)

    @property
    def _epochs(self) -> int:
        """The number of epochs at which Keras's `fit` ends."""
        return int(min(self._arguments["epochs"], keras.config.max_epochs() or self._arguments["epochs"]))

    def _has_ended(self, saved: Snapshot) -> bool:
        """Whether no training remains. Raises `CheckpointError` if fewer epochs are requested than an earlier run did."""
        has_ended, done, asked = saved.values["finished"], saved.values["epoch"], self._epochs
        if has_ended and (saved.values["stop_training"] or done == asked):
            return True
        if done >= asked:
            was = f"had ended after {done} epochs" if has_ended else f"was in epoch {done + 1}"
            raise CheckpointError(f"fit {self._number} {was} ({self._name}), and is now asked for {asked}", ANEW)
        if done < self._arguments["initial_epoch"]:
            begin = self._arguments["initial_epoch"]
            raise CheckpointError(
                f"fit {self._number} had done {done} epochs ({self._name}), and now begins after {begin}", ANEW
            )
        if not has_ended:
            return False
        averaging = [each for each in exact.optimizers(self._arguments["self"]) if getattr(each, "use_ema", False)]
        if averaging or saved.values.get("changed_at_end"):
            why = "the averaged weights of use_ema" if averaging else "weights that a callback set at its end"
            raise CheckpointError(
                f"fit {self._number} had ended after {done} epochs, with {why}; it cannot go on to {asked} epochs as if it had "
                "not ended",
                ANEW,
            )
        return False

    def _check_last(self) -> None:
        """Raise `CheckpointError` if a later `fit` has checkpoints: it began from another result than this `fit` will have."""
        later = [name for name in checkpoint_names(self._policy.folder) if name >= prefix_of(self._number + 1)]
        if self._is_writer and later:
            raise CheckpointError(
                f"fit {self._number} is to train, and a later one has a checkpoint already: {later[0]}",
                f"run the script as it ran before, or {ANEW}",
            )

    def _replayed(self, plain: Callable[..., Any], saved: Snapshot) -> Any:
        """Restore the result of an earlier run's `fit`, without training."""
        self._line = f"fit {self._number} had ended: its result is that of the checkpoint {self._name}"
        if self._number == 1:
            self._line += f"\nhint: to train anew, {ANEW}"
        first_use.begins(self._placement, None)
        begun = _Begun(self._open, self._parts)
        self._arguments |= {"initial_epoch": self._arguments["epochs"], "callbacks": [begun], "verbose": 0}
        history = plain(*self._bound.args, **self._bound.kwargs)
        for callback in self._callbacks:
            callback.set_model(self._arguments["self"])
        assert begun.running is not None
        begun.running.write(saved, ended=True)
        return history

    def _say(self, line: str) -> None:
        if self._is_writer:
            tell(line)

    def _open(self, model: Any) -> None:
        """Note the model's settings, before the user's callbacks run."""
        self._settings = settings(model)
        for callback in self._callbacks if self._saved is not None else ():
            if isinstance(callback, keras.callbacks.BackupAndRestore):
                self._opening.enter_context(backups.left_out(callback))

    def _parts(self, model: Any) -> RunningFit:
        self._opening.close()
        feed, validation, begin = self._arguments["x"], self._arguments["validation_data"], self._settings
        sources = [each.source for each in (feed, validation) if isinstance(each, Feed)]
        states = CallbackStates([each for each in self._callbacks if not _is_ours(each)], model, sources)
        if self._saved is not None:
            feed.form = unpack(self._saved.values.get("batch"), {})
            with kept_random(None):
                build(model, feed, self._saved)
            variables.check(model, self._saved.tensors)
            states.check(self._saved.values["callbacks"])
            fingerprint.check(
                self._saved.values["fingerprint"],
                fingerprint.take(model, feed, begin, self._callback_settings),
                str(self._name),
            )
            self._say(self._line)
            self._say_what_is_rounded(model, self._saved)
        own = Generators(lambda: generators.read(None), lambda state: generators.write(None, state))
        return RunningFit(
            model,
            states,
            Keeper(feed, own),
            Keeper(validation, own, restarts=True) if isinstance(validation, Feed) else None,
            ModelAttributes(model),
            functools.cache(lambda: fingerprint.take(model, feed, begin, self._callback_settings)),
            self._writer.take_spare,
            self._writer.wanted,
        )

    def _say_what_is_rounded(self, model: Any, saved: Snapshot) -> None:
        what = self._placement.backend.instruments.rounds_anew(model, self._placement, saved.values["steps"])
        if what and self._is_writer and not self._has_ended(saved):
            tell_once(f"{what}: this fit goes on to rounding, not bit for bit")

    def _save(self, state: Snapshot, wait: bool) -> str | None:
        name = name_of(self._number, state.values["epoch"], state.values["steps"])
        return name if self._write(name, state, finished=False, wait=wait) else None

    def _write_final(self, state: Snapshot) -> None:
        self._write(final_name_of(self._number, state.values["epoch"]), state, finished=True, wait=True)

    def _form(self) -> Any:
        """The form of a batch as JSON; None if its data has a class of the user's, such as a named tuple."""
        try:
            return pack(self._arguments["x"].form, "batch", {})
        except CannotPackError:
            return None

    def _write(self, name: str, state: Snapshot, finished: bool, wait: bool) -> bool:
        """Write a checkpoint; False after a failure, which is reported."""
        values, tensors = self._at_begin
        more = {"fit": self._number, "finished": finished, "epochs": self._epochs, "batch": self._form(), **values}
        if self._job is not None:
            more["generators_of_ranks"] = rank_generators.of_all(state, self._job)
        if self._is_writer:
            more["model"] = {"config": self._config()}
        snapshot = Snapshot({**state.tensors, **tensors}, {**state.values, **more})
        return (self._writer.write_now if wait else self._writer.write)(name, snapshot)


class _Begun(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Notes the parts of a `fit` that trains nothing."""

    def __init__(self, opens: Callable[[Any], None], parts: Callable[[Any], RunningFit]) -> None:
        super().__init__()
        self._open, self._parts = opens, parts
        self.running: RunningFit | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        self._open(self._model)
        self.running = self._parts(self._model)


def _surround(arguments: dict[str, Any], fit: KeptFit, until_end: ExitStack) -> None:
    """Add a callback before the user's callbacks, and one after them."""
    callbacks = arguments["callbacks"]
    if not isinstance(callbacks, keras.callbacks.CallbackList):
        # A `Checkpoint` is not needed any more, and Keras would call it at every step.
        others = [each for each in listed(callbacks) if type(each) is not Checkpoint]
        arguments["callbacks"] = [fit.first, *others, fit.last]
        return
    until_end.callback(setattr, callbacks, "callbacks", callbacks.callbacks)
    callbacks.callbacks = [fit.first, *callbacks.callbacks, fit.last]
    for each in (fit.first, fit.last):
        each.set_model(arguments["self"])


def _is_ours(callback: Any) -> bool:
    return type(callback).__module__.partition(".")[0] == "abreast"
