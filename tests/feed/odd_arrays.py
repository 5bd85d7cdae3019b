"""Bodies: unusual arrays of users' sources, by name, trained with devices or with plain Keras. Batches have 6 rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

ROWS, STEPS = 6, 5


def _read_only(x: Any) -> Any:
    x.flags.writeable = False
    return x


def _with_nan(x: Any) -> Any:
    return np.where(np.arange(len(x))[:, None] == 4, np.nan, x).astype("float32")


KINDS: dict[str, Callable[[Any], Any]] = {
    "read only": _read_only,
    "columns first": np.asfortranarray,
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "backwards": lambda x: x[::-1],
    "one row for all": lambda x: np.broadcast_to(x[:1], x.shape),
    "float64": lambda x: x.astype("float64"),
    "float16": lambda x: x.astype("float16"),
    "int64": lambda x: np.rint(4 * x).astype("int64"),
    "int8": lambda x: np.rint(4 * x).astype("int8"),
    "uint8": lambda x: np.abs(np.rint(4 * x)).astype("uint8"),
    "bool": lambda x: x > 0,
    "NaN": _with_nan,
    "objects": lambda x: x.astype(object),
    "strings": lambda x: x.astype(str),
    "rows of other lengths": lambda x: np.array([row[: 1 + index % 2] for index, row in enumerate(x)], dtype=object),
    "dates": lambda x: (1000 * x).astype("datetime64[s]"),
}


def trained_on(kind: str, devices: int) -> list[Any]:
    """The weights after some steps of batches of that kind."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    if devices:
        import abreast

        abreast.parallelize(model, devices=devices)
    model.fit(_batches(KINDS[kind]), steps_per_epoch=STEPS, verbose=0)
    return [np.asarray(weight) for weight in model.get_weights()]


def _batches(change: Callable[[Any], Any]) -> Iterator[Any]:
    draws = np.random.default_rng(0)
    while True:
        x = draws.normal(size=(ROWS, 2)).astype("float32")
        y = x.sum(axis=1, keepdims=True)
        yield change(x), y
