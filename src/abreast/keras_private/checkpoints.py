"""Decisions of a `ModelCheckpoint` without saving: the best value, and the number of batches since the last save."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keras.src.callbacks.model_checkpoint import ModelCheckpoint

from abreast.replacing import replaced

__all__ = ["HOOKS", "decide"]

HOOKS = ("on_epoch_begin", "on_epoch_end", "on_train_batch_end")  # the hooks of Keras's class


def decide(callback: Any, hook: str, *arguments: Any, **named: Any) -> None:
    """Run a hook of Keras's class without saving and without printing; a subclass's own hook does not run."""
    with _without_saving(callback):
        getattr(ModelCheckpoint, hook)(callback, *arguments, **named)


@contextmanager
def _without_saving(callback: Any) -> Iterator[None]:
    def decide_only(epoch: int, batch: int | None, logs: Any) -> None:
        ModelCheckpoint._should_save_model(callback, epoch, batch, logs, "")

    with replaced(callback, "verbose", 0), replaced(callback, "_save_model", decide_only):
        yield
