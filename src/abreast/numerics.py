"""Detection of the step, and the rank, at which a loss stops being a finite number.

`check_numerics` turns it on, and an error is raised. Keras's `TerminateOnNaN` among the callbacks also turns it on; then one line
goes to stderr. Nothing else does, because reading the loss at every step waits for the devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import tree

from abreast.errors import NumericsError
from abreast.feed import Feed
from abreast.stderr import tell_for_all


class LossWatch(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Reports once the step at which the loss became NaN or infinite: raises `NumericsError` if `stop`, else prints a line."""

    def __init__(self, feed: Feed, num_devices: int, stop: bool) -> None:
        super().__init__()
        self.feed, self.num_devices, self.stop = feed, num_devices, stop
        self.epoch = 0
        self.reported = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        loss = (logs or {}).get("loss")
        if self.reported or loss is None or np.isfinite(float(loss)):
            return
        self.reported = True
        message = f"the loss is {float(loss)} after step {batch} of epoch {self.epoch} ({self._where()})"
        hint = "check the rows of that step; if they are valid, a lower learning rate or clipping helps"
        if self.stop:
            raise NumericsError(message, hint)
        tell_for_all(f"{message}\nhint: {hint}")

    def _where(self) -> str:
        batch = self.feed.last_batch
        if batch is None:
            return "rows unknown"
        if batch.held is not None or self.feed.own_batches is not None:
            return f"the rows of this process are {'' if _finite(batch.data) else 'not '}finite"
        ranks = [rank for rank, shard in enumerate(batch.cut(self.num_devices)) if not _finite(shard)]
        if not ranks:
            return "every rank's input is finite"
        return f"input of rank {', '.join(map(str, ranks))} of {self.num_devices} is not finite"


def watch_loss(callbacks: Any, feed: Feed, num_devices: int, check_numerics: bool) -> Any:
    """The callbacks, with a `LossWatch` in front if `check_numerics` or a `TerminateOnNaN` requires it."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return callbacks
    given = list(callbacks) if isinstance(callbacks, Sequence) else [] if callbacks is None else [callbacks]
    if not check_numerics and not any(isinstance(callback, keras.callbacks.TerminateOnNaN) for callback in given):
        return callbacks
    feed.keep_last = True
    return [LossWatch(feed, num_devices, check_numerics), *given]


def _finite(shard: Any) -> bool:
    arrays = (np.asarray(leaf) for leaf in tree.flatten(shard) if leaf is not None)
    return all(np.isfinite(array).all() for array in arrays if array.dtype.kind in "fc")
