"""Blocks that restore a model, its callbacks and the random generators at their end, and write no file of the user.

`state.py` reads and restores the state.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import keras

from abreast.replacing import replaced
from abreast.state import TrainingState

# Attributes with the paths to which Keras's callbacks write.
_WRITTEN = {
    keras.callbacks.ModelCheckpoint: ("filepath",),
    keras.callbacks.CSVLogger: ("filename",),
    keras.callbacks.TensorBoard: ("log_dir",),
}


def build(model: Any, batch: Any) -> None:
    """Make every variable of a compiled model, its losses, metrics and optimizer, as the first `fit` would."""
    try:
        model._symbolic_build(data_batch=batch)
    except Exception:
        # A model whose train_step calls its parts need not have a `call` of its own.
        if not all(part.built for part in model._flatten_layers(include_self=False)):
            raise


@contextmanager
def kept(model: Any, callbacks: Sequence[Any]) -> Iterator[None]:
    """Restore the variables of a built model, and its callbacks, at the end of the block, also after an error."""
    state = TrainingState.read(model, callbacks)
    try:
        with saving_elsewhere(), _writing_elsewhere(callbacks):
            yield
    finally:
        state.put_back()


@contextmanager
def _writing_elsewhere(callbacks: Sequence[Any]) -> Iterator[None]:
    """Redirect callbacks that write files to a temporary folder. The caller restores their attributes."""
    with tempfile.TemporaryDirectory(prefix="abreast-doctor-") as folder:
        for callback in callbacks:
            for kind, names in _WRITTEN.items():
                for name in names if isinstance(callback, kind) else ():
                    path = getattr(callback, name, None)
                    if isinstance(path, str | os.PathLike):
                        setattr(callback, name, os.path.join(folder, os.path.basename(os.path.normpath(path))))
        yield


@contextmanager
def saving_elsewhere() -> Iterator[None]:
    """Redirect models' saving to a temporary folder, so that no checkpoint of the user is overwritten."""
    with tempfile.TemporaryDirectory(prefix="abreast-doctor-") as folder, ExitStack() as stack:
        for name in ("save", "save_weights"):
            stack.enter_context(replaced(keras.Model, name, _saving_into(folder, getattr(keras.Model, name))))
        yield


def _saving_into(folder: str, plain: Any) -> Any:
    @functools.wraps(plain)
    def save(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        return plain(self, os.path.join(folder, os.path.basename(str(filepath))), *args, **kwargs)

    return save
