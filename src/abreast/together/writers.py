"""Callbacks that write act on rank 0 alone: Keras's own, and callbacks with the attribute `abreast_writes`.

On the other ranks they update only the attributes that a script may read. If one fails, all processes end and name its error.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

import keras

from abreast.backend.contract import Job, Placement
from abreast.errors import BackendError
from abreast.keras_private import backups, checkpoints
from abreast.replacing import replaced

_callbacks: Any = keras.callbacks
_KERAS_WRITERS: tuple[Any, ...] = (
    *(_callbacks.ModelCheckpoint, _callbacks.BackupAndRestore, _callbacks.TensorBoard),
    *(_callbacks.CSVLogger, _callbacks.RemoteMonitor, _callbacks.ProgbarLogger),
)
_HOOKS = (
    *("set_model", "on_epoch_begin", "on_epoch_end", "on_batch_begin", "on_batch_end"),
    *(f"on_{kind}_{moment}" for kind in ("train", "test", "predict") for moment in ("begin", "end")),
    *(f"on_{kind}_batch_{moment}" for kind in ("train", "test", "predict") for moment in ("begin", "end")),
)
_here = threading.local()  # `acting`: the name of the callback that acts alone in this thread


def writes(callback: Any) -> bool:
    """Whether a callback acts on rank 0 alone: the value of its `abreast_writes`; by default true for Keras's writers."""
    _refuse_orbax(callback)
    said = getattr(callback, "abreast_writes", None)
    return isinstance(callback, _KERAS_WRITERS) if said is None else bool(said)


def restores(callback: Any) -> bool:
    return isinstance(callback, _callbacks.BackupAndRestore) and writes(callback)


def _refuse_orbax(callback: Any) -> None:
    if any(kind.__name__ == "OrbaxCheckpoint" for kind in type(callback).__mro__):
        raise BackendError(
            "OrbaxCheckpoint lets processes meet by itself, which abreast does not support in a job of several processes",
            "use keras.callbacks.ModelCheckpoint or BackupAndRestore",
        )


def refuse_alone(name: str) -> None:
    """Raise `BackendError` in a callback that acts on rank 0 alone: the other processes would not make the call."""
    acting = getattr(_here, "acting", None)
    if acting is not None:
        raise BackendError(
            f"{acting} acts on rank 0 alone, and calls {name}, which all processes must call",
            "set its attribute abreast_writes = False: it then runs in every process, and writes where "
            "abreast.is_main_process() is true",
        )


@contextmanager
def on_rank_0(callback: Any, job: Job, placement: Placement) -> Iterator[None]:
    """Inside, a callback acts on rank 0 alone. A `BackupAndRestore` restores rank 0's backup in every process."""
    changed = _guarded(callback, job) if job.rank == 0 else _muted(callback)
    with ExitStack() as until_end:
        if isinstance(callback, _callbacks.BackupAndRestore):
            restore = changed.get("on_train_begin", callback.on_train_begin)
            changed["on_train_begin"] = functools.partial(_restore, callback, job, placement, restore, until_end)
        for name, hook in changed.items():
            until_end.enter_context(replaced(callback, name, hook))
        yield


def _muted(callback: Any) -> dict[str, Callable[..., None]]:
    """Hooks of a callback on another rank: they only note the model, and the decisions of a `ModelCheckpoint`."""
    changed: dict[str, Callable[..., None]] = dict.fromkeys(_HOOKS, _nothing)
    changed["set_model"] = functools.partial(keras.callbacks.Callback.set_model, callback)
    if isinstance(callback, _callbacks.ModelCheckpoint):
        changed.update({name: functools.partial(checkpoints.decide, callback, name) for name in checkpoints.HOOKS})
    return changed


def _nothing(*_: Any, **__: Any) -> None:
    pass


_nothing._is_default = True  # type: ignore[attr-defined]  # Keras then need not call it in the thread that trains


def _guarded(callback: Any, job: Job) -> dict[str, Callable[..., None]]:
    """The hooks of a callback on rank 0, wrapped so that their errors end all processes."""
    hooks = {name: getattr(callback, name) for name in _HOOKS}
    return {
        name: functools.partial(_alone, callback, job, hook)
        for name, hook in hooks.items()
        if not getattr(hook, "_is_default", False)
    }


def _alone(callback: Any, job: Job, hook: Callable[..., None], *arguments: Any, **named: Any) -> None:
    name = type(callback).__name__
    before, _here.acting = getattr(_here, "acting", None), name
    try:
        hook(*arguments, **named)
    except Exception as error:
        job.failed(f"{name}: {type(error).__name__}: {error}")
        raise
    finally:
        _here.acting = before


def _restore(
    callback: Any, job: Job, placement: Placement, own: Callable[..., None], until_end: ExitStack, logs: Any = None
) -> None:
    """`on_train_begin` of a `BackupAndRestore`: rank 0 reads the backup, and all processes begin with its content."""
    own(logs)
    said = json.dumps(asdict(backups.restored(callback))).encode() if job.rank == 0 else b""
    found = backups.Restored(**json.loads(job.exchange("restores a backup", said)[0]))
    if job.rank:
        until_end.enter_context(backups.accepted(callback, found))
    if found.weights:
        job.share_variables(callback._model, placement)
