"""The file that `BackupAndRestore` writes beside the weights: the epoch and the batch of the last backup.

Keras restores the epoch only. The file counts batches from the beginning of the run, and epochs from 0 after a restart in the
middle of an epoch, so it does not show which batches are done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from keras.src.utils import file_utils

from abreast import whole_file
from abreast.replacing import replaced

__all__ = [
    "Restored",
    "Saved",
    "accepted",
    "begin_epoch",
    "left_out",
    "noting",
    "read",
    "restored",
    "steps_in",
    "steps_of",
]

Saved = dict[str, Any]
_LOAD = "_load_model"  # Keras's method that sets variables
_OF_RANK_0 = "_abreast_saved"  # the attribute with the file's content, if only rank 0 reads the file


@dataclass(frozen=True)
class Restored:
    """The place that a `BackupAndRestore` has restored on rank 0, besides the values of variables."""

    weights: bool  # whether it has set variables
    epoch: int | None  # the epoch with which the `fit` begins
    saved: Saved | None


def restored(callback: Any) -> Restored:
    """The place that a `BackupAndRestore` has restored in its `on_train_begin`."""
    weights = _LOAD not in vars(callback) and file_utils.exists(callback._weights_path)
    return Restored(weights, callback._model._initial_epoch, read(callback))


def left_out(callback: Any) -> AbstractContextManager[None]:
    """Inside, a `BackupAndRestore` sets no variables: a checkpoint's values would replace them.

    Before it sets them, it builds the model's optimizer, even one that the model's own step does not use.
    """
    return replaced(callback, _LOAD, _nothing)


def _nothing() -> None:
    pass


@contextmanager
def accepted(callback: Any, found: Restored) -> Iterator[None]:
    """Make a model begin at rank 0's place. Inside, `read` returns rank 0's content; this process may not see the file."""
    model = callback._model
    if found.weights and model.optimizer is not None and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    model._initial_epoch = found.epoch
    setattr(callback, _OF_RANK_0, found.saved)
    try:
        yield
    finally:
        delattr(callback, _OF_RANK_0)


def read(callback: Any) -> Saved | None:
    """The content of a `BackupAndRestore`'s file; None without a backup."""
    if _OF_RANK_0 in vars(callback):
        found: Saved | None = getattr(callback, _OF_RANK_0)
        return found
    path = callback._training_metadata_path
    if not file_utils.exists(path):
        return None
    with file_utils.File(path, "r") as file:
        saved: Saved = json.loads(file.read())
    return saved


def steps_of(callback: Any, saved: Saved) -> int:
    """Steps of its epoch in this callback's backup, if the run began with that epoch's first step."""
    return 0 if callback.save_freq == "epoch" else int(saved["batch"]) + 1


def steps_in(callback: Any, saved: Saved) -> int | None:
    """`steps_of` for a file that an earlier run wrote, maybe with another `save_freq`; None if the file is ambiguous.

    Keras writes batch 0 at the end of an epoch, with the number of the next one, and also after the first step of an epoch.
    """
    if int(saved["batch"]):
        return int(saved["batch"]) + 1
    return 0 if callback.save_freq == "epoch" else None


def begin_epoch(callback: Any, epoch: int) -> None:
    """Set the epoch's number for backups in the middle of the epoch; Keras's own count restarts at 0 after a restart."""
    callback._current_epoch = epoch


@contextmanager
def noting(callback: Any, note: Callable[[int, int], Saved]) -> Iterator[None]:
    """Inside, the file of each backup also has the result of `note(epoch, steps_done)`."""
    plain = callback._save_model

    def save_model() -> None:
        plain()
        saved = {"epoch": callback._current_epoch, "batch": callback._last_batch_seen}
        _write(callback._training_metadata_path, {**saved, **note(saved["epoch"], steps_of(callback, saved))})

    callback._save_model = save_model
    try:
        yield
    finally:
        del callback._save_model


def _write(path: str, saved: Saved) -> None:
    if file_utils.is_remote_path(path):
        with file_utils.File(path, "w") as file:
            file.write(json.dumps(saved))
    else:
        whole_file.write("the place of a backup", json.dumps(saved), path)
