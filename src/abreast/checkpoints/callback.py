"""`Checkpoint`: a callback that saves a `fit`, and lets the same script go on from there. The work is done in `which_fit.py`."""

from __future__ import annotations

import os
from typing import Any

import keras

from abreast.checkpoints.policy import Policy, is_off
from abreast.errors import CheckpointError


class Checkpoint(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Saves the whole state of a `fit`, and continues from it when the script runs again, on any number of devices.

    It saves weights, optimizer, metrics, `History`, random generators, the place in the data, and the states of the other
    callbacks. The n-th `fit` of a process that uses the folder continues from the checkpoints of the earlier n-th `fit`; a `fit`
    that had ended is not trained again. The guide on checkpoints lists what is exact.

    Args:
        folder: the folder for checkpoints; it may be new. One job at a time uses it.
        every: `"30s"`, `"10min"` or `"1h"`, a number of steps, or `"epoch"`.
        keep: the number of checkpoints of a running `fit` that stay. The last state of each `fit` that has ended stays too.

    Raises:
        CheckpointError: a value is not allowed; in `fit`, the model is not on devices of abreast, the checkpoint is of another
            training, or none can be read.

    Example:
        >>> import abreast, keras
        >>> import numpy as np
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> model = abreast.parallelize(model, devices=1)
        >>> x = np.ones((64, 8), "float32")
        >>> callbacks = [abreast.Checkpoint(folder, every="epoch")]
        >>> history = model.fit(x, x[:, :1], epochs=2, verbose=0, callbacks=callbacks)
        >>> len(history.history["loss"])
        2
    """

    def __init__(self, folder: str | os.PathLike[str], every: int | str = "10min", keep: int = 3) -> None:
        super().__init__()
        self.policy = Policy(folder, every, keep)
        self.is_active = False  # whether it is in a `fit` that keeps checkpoints

    def on_train_begin(self, logs: Any = None) -> None:
        if not (self.is_active or is_off()):
            raise CheckpointError(
                "abreast.Checkpoint saves models on devices of abreast, and this one is plain Keras",
                "place it before fit: abreast.parallelize(model), on one device too; or start the script with abreast run",
            )
