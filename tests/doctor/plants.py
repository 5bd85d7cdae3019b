"""In a worker: models and sources with a planted cause. Each plant returns a `fit`, and the same `fit` with the cause fixed.

The model takes some 15 ms a step, so that a cause in a source or a callback is most of a step, or little of it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np

import abreast
from abreast.backend.contract import BatchNorm

WIDTH, CLASSES, ROWS, STEPS = 256, 10, 1024, 100
# With fewer, on some backend, a step's fixed cost is a third of it, and more rows are rightly advised.
HEALTHY_ROWS = 4096


@dataclass
class Fit:
    """A maker of placed models and the arguments of `fit`; the same after the fix, with its rows per step.

    `burst`: the number of batches that may arrive at once after the fix.
    """

    make_model: Callable[[], Any]
    given: dict[str, Any]
    fixed: dict[str, Any] | None = None
    make_fixed_model: Callable[[], Any] | None = None
    fixed_rows: int = ROWS
    burst: int = 1


def layers(depth: int = 4, width: int = WIDTH) -> list[Any]:
    return [keras.layers.Dense(width, "relu") for _ in range(depth)]


def compiled(
    stack: list[Any],
    devices: int,
    width: int = WIDTH,
    batch_norm: BatchNorm = "global",
    **settings: Any,
) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((width,)), *stack, keras.layers.Dense(CLASSES)], name="planted")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(settings.pop("optimizer", keras.optimizers.SGD(0.02)), loss, **settings)
    return abreast.parallelize(model, devices=devices, batch_norm=batch_norm)


def usual(devices: int) -> Any:
    return compiled(layers(), devices)


def data(rows: int, width: int = WIDTH) -> tuple[Any, Any]:
    draws = np.random.default_rng(0)
    return draws.normal(size=(rows, width)).astype("float32"), draws.integers(0, CLASSES, rows)


def generator(make: Any) -> dict[str, Any]:
    """The arguments of `fit` for a generator of batches that `make` makes."""

    def batches() -> Iterator[Any]:
        while True:
            yield make()

    return {"x": batches(), "steps_per_epoch": STEPS, "verbose": 0}


def dataset(make: Any, workers: int = 1) -> dict[str, Any]:
    class Batches(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
        def __len__(self) -> int:
            return STEPS

        def __getitem__(self, index: int) -> Any:
            return make()

    return {"x": Batches(workers=workers, max_queue_size=workers + 2), "verbose": 0}


def copies(batch: Any) -> Any:
    return tuple(part.copy() for part in batch)


def reading(devices: int, ms: float) -> Fit:
    batch = data(ROWS)

    def wait() -> Any:
        time.sleep(ms / 1000)  # a disk
        return copies(batch)

    return Fit(partial(usual, devices), generator(wait), generator(lambda: copies(batch)))


def decoding(devices: int, mib: int) -> Fit:
    x, y = data(ROWS)
    packed = zlib.compress(np.random.default_rng(0).integers(0, 4, mib << 20, dtype="uint8").tobytes(), 1)

    def unpack() -> Any:
        pixels = np.frombuffer(zlib.decompress(packed), "uint8")
        return x + pixels[0], y.copy()

    return Fit(partial(usual, devices), generator(unpack), generator(lambda: copies((x, y))))


def row_by_row(x: Any, rows: int) -> Any:
    """Work of pure Python, about 0.2 ms a row."""
    out = x.copy()
    for row in range(rows):
        out[row, 0] = sum(value * 0.001 for value in range(3000)) % 1.0
    return out


def python(devices: int, rows: int) -> Fit:
    x, y = data(ROWS)
    given = dataset(lambda: (row_by_row(x, rows), y.copy()))
    return Fit(partial(usual, devices), given, dataset(lambda: copies((x, y))))


def held(devices: int, rows: int) -> Fit:
    x, y = data(ROWS)
    given = dataset(lambda: (row_by_row(x, rows), y.copy()), workers=4)
    return Fit(partial(usual, devices), given, dataset(lambda: copies((x, y)), workers=4))


def few_workers(devices: int, ms: float) -> Fit:
    batch = data(ROWS)

    def wait() -> Any:
        time.sleep(ms / 1000)
        return copies(batch)

    return Fit(partial(usual, devices), dataset(wait), dataset(wait, workers=16), burst=16)


class Telling(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    def __init__(self, ms: float) -> None:
        super().__init__()
        self.ms = ms

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        time.sleep(self.ms / 1000)


def callback(devices: int, ms: float) -> Fit:
    x, y = data(ROWS * STEPS)
    settings = {"x": x, "y": y, "batch_size": ROWS, "verbose": 0}
    return Fit(partial(usual, devices), settings | {"callbacks": [Telling(ms)]}, settings)


def validating(devices: int, times: int) -> Fit:
    """A validation of `times` as many rows as are trained on; the fix validates as seldom as the doctor says."""
    x, y = data(ROWS * 40)
    settings = {"x": x, "y": y, "batch_size": ROWS, "verbose": 0}
    return Fit(partial(usual, devices), settings | {"validation_data": data(ROWS * 40 * times)}, settings)


def small_batch(devices: int, rows: int) -> Fit:
    """Weights of 32 MiB for a row or two: to read them is all that a step does."""
    x, y = data(rows * 200, 1024)
    model = lambda: compiled(layers(8, 1024), devices, 1024)  # noqa: E731
    settings = {"x": x, "y": y, "verbose": 0}
    return Fit(model, settings | {"batch_size": rows}, settings | {"batch_size": 2 * rows}, fixed_rows=2 * rows)


def exchanging(devices: int, width: int) -> Fit:
    """Many weights, few rows, two devices."""
    rows = 4 * devices
    x, y = data(rows * 100, width)
    model = lambda: compiled(layers(3, width), devices, width)  # noqa: E731
    settings = {"x": x, "y": y, "verbose": 0}
    return Fit(model, settings | {"batch_size": rows}, settings | {"batch_size": 2 * rows}, fixed_rows=2 * rows)


def local_statistics(devices: int, rows: int) -> Fit:
    """Each row is as much work as 32 rows of a dense layer, so that a step of a few is a full one."""
    x, y = data(rows * 50, 1024)

    def model() -> Any:
        stack = [keras.layers.BatchNormalization(), keras.layers.RepeatVector(32), keras.layers.Dense(1024, "relu")]
        return compiled([*stack, keras.layers.GlobalAveragePooling1D()], devices, 1024, "local")

    return Fit(model, {"x": x, "y": y, "batch_size": rows, "verbose": 0})


def default_rate(devices: int, rows: int) -> Fit:
    x, y = data(rows * 12)
    return Fit(
        lambda: compiled(layers(), devices, optimizer="adam"), {"x": x, "y": y, "batch_size": rows, "verbose": 0}
    )


def eager(devices: int, layers: int, **settings: Any) -> Fit:
    def model(**settings: Any) -> Any:
        return compiled([keras.layers.Dense(64, "gelu") for _ in range(layers)], devices, **settings)

    x, y = data(64 * 100)
    arguments = {"x": x, "y": y, "batch_size": 64, "verbose": 0}
    return Fit(partial(model, **settings), arguments, arguments, model, 64)


def placed(name: str, devices: int, *stack: Any, rate: float = 0.02) -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([*stack, keras.layers.Dense(CLASSES)], name=name)
    model.compile(keras.optimizers.SGD(rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return abreast.parallelize(model, devices=devices)


def lengths(devices: int, lengths: int) -> Fit:
    """Sequences padded to the longest of their batch, each batch to another length."""

    def model() -> Any:
        stack = [keras.layers.Dense(128, "relu"), keras.layers.Dense(128, "relu")]
        return placed("lengths", devices, keras.Input((None, 64)), *stack, keras.layers.GlobalAveragePooling1D())

    draws = np.random.default_rng(0)
    longest = lengths + 100
    x, y = draws.normal(size=(16, longest, 64)).astype("float32"), draws.integers(0, CLASSES, 16)
    order = iter([*draws.permutation(lengths)] * 1000)
    given = generator(lambda: (x[:, : longest - int(next(order))].copy(), y.copy()))
    return Fit(model, given, generator(lambda: copies((x, y))), fixed_rows=16)


class SleepingRank(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Slow on rank 1 alone, as a GPU that is hot."""

    def __init__(self, ms: float) -> None:
        super().__init__()
        self.ms = ms

    def call(self, x: Any) -> Any:
        import torch.distributed as dist

        if dist.is_initialized() and dist.get_rank() == 1:
            time.sleep(self.ms / 1000)
        return x


def sleeping_rank(devices: int, ms: float) -> Fit:
    def model(ms: float) -> Any:
        return compiled([SleepingRank(ms), *layers()], devices)

    x, y = data(ROWS * 20)
    settings = {"x": x, "y": y, "batch_size": ROWS, "verbose": 0}
    return Fit(partial(model, ms), settings, settings, partial(model, 0.0))


class SleepingRows(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Takes so long for each of its rows, as a device that computes and no core that others need."""

    def __init__(self, ms: float) -> None:
        super().__init__()
        self.ms = ms

    def call(self, x: Any) -> Any:
        time.sleep(len(x) * self.ms / 1000)
        return x


def uneven(devices: int, rows: int, ms: float) -> Fit:
    """One row more on the first device than on the second, of rows that each take long."""
    x, y = data(rows * 60)
    settings = {"x": x, "y": y, "verbose": 0}

    def model() -> Any:
        return compiled([SleepingRows(ms), *layers()], devices)

    return Fit(model, settings | {"batch_size": rows}, settings | {"batch_size": rows + 1}, fixed_rows=rows + 1)


class Corner(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    def call(self, x: Any) -> Any:
        return keras.ops.reshape(x[:, :8, :8, :], (-1, 192))


def float_images(devices: int, size: int) -> Fit:
    """Images of bytes as floats, for a model that does little with them."""

    def model() -> Any:
        return placed(
            "images", devices, keras.Input((size, size, 3)), Corner(), keras.layers.Dense(32, "relu"), rate=1e-4
        )

    draws = np.random.default_rng(0)
    x, y = draws.integers(0, 256, (4096, size, size, 3), dtype="uint8"), draws.integers(0, CLASSES, 4096)
    settings = {"y": y, "batch_size": 128, "shuffle": False, "verbose": 0}
    return Fit(model, settings | {"x": x.astype("float32")}, settings | {"x": x}, fixed_rows=128)


def float32_layers(devices: int, rows: int, width: int) -> Fit:
    """Products of large matrices, as tensor cores do them many times as fast in bfloat16. For GPUs."""
    x, y = data(rows * 20)
    return Fit(lambda: compiled(layers(4, width), devices), {"x": x, "y": y, "batch_size": rows, "verbose": 0})


def healthy_arrays(devices: int, rows: int = HEALTHY_ROWS) -> Fit:
    x, y = data(rows * 50)
    return Fit(partial(usual, devices), {"x": x, "y": y, "batch_size": rows, "verbose": 0})


def healthy_generator(devices: int) -> Fit:
    batch = data(HEALTHY_ROWS)

    def some_work() -> Any:
        time.sleep(0.002)
        return copies(batch)

    return Fit(partial(usual, devices), generator(some_work))


def healthy_dataset(devices: int) -> Fit:
    batch = data(HEALTHY_ROWS)

    def wait() -> Any:
        time.sleep(0.012)
        return copies(batch)

    return Fit(partial(usual, devices), dataset(wait, workers=4))


def healthy_everything(devices: int) -> Fit:
    """A healthy fit with a light callback, a small validation and a progress bar."""
    x, y = data(HEALTHY_ROWS * 50)
    settings = {"validation_data": data(HEALTHY_ROWS * 4), "callbacks": [Telling(0.2)], "verbose": 1}
    return Fit(partial(usual, devices), {"x": x, "y": y, "batch_size": HEALTHY_ROWS, **settings})
