"""Bodies that run in a worker with JAX, in which Keras believes that it trains on a GPU."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import keras

from tests.feed.order_bodies import After, batch, batches_of, model_on, powers, said


def as_on_a_gpu(module: str, name: str, **arguments: Any) -> Any:
    """The result of a body of another module."""
    with _told_of_a_gpu():
        return getattr(importlib.import_module(module), name)(**arguments)


@contextlib.contextmanager
def _told_of_a_gpu() -> Iterator[None]:
    trainer: Any = importlib.import_module("keras.src.backend.jax.trainer")
    plain = trainer.jax
    trainer.jax = _WithGpu(plain)
    try:
        yield
    finally:
        trainer.jax = plain


class _WithGpu:
    """JAX, whose default backend is a GPU."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def default_backend(self) -> str:
        return "gpu"


def first_batches(devices: int) -> list[int]:
    """The batches of each step if threads read a data set."""
    model, sees = model_on(devices), _Sees()
    model.fit(_Powers(workers=2, max_queue_size=3), shuffle=False, epochs=2, verbose=0, callbacks=[sees])
    return sees.seen


class _Sees(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """The values of the batches, from the mean losses."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []
        self._total = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        total = round((logs or {})["loss"] * (batch + 1))
        self.seen.append(total - self._total if batch else total)
        self._total = total


class _Powers(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return batch(2.0**index)


def fits_on_a_generator(devices: int, **settings: Any) -> dict[str, Any]:
    """The batches of two fits, an evaluation and a prediction on a generator, and the one that comes then."""
    rows, found = powers(), []
    model = model_on(devices, **settings)
    for _ in range(2):
        found.append(batches_of(model.fit(rows, steps_per_epoch=3, verbose=0).history["loss"][0], 3))
    found.append(batches_of(model.evaluate(rows, steps=2, verbose=0), 2))
    return {
        "found": found,
        "predicted": model.predict(rows, steps=1, verbose=0).ravel().tolist(),
        "next": float(next(rows)[0][0, 0]),
    }


def stops_early(devices: int, **settings: Any) -> dict[str, Any]:
    """The batch that comes after a fit which a callback ends, and the lines on stderr."""
    rows, model = powers(), model_on(devices, **settings)

    def stop() -> None:
        model.stop_training = True

    with said() as text:
        model.fit(rows, steps_per_epoch=30, callbacks=[After(stop)], verbose=0)
        loss = model.fit(rows, steps_per_epoch=3, verbose=0).history["loss"][0]
    return {"batches": batches_of(loss, 3), "lost": "lost" in text.getvalue()}


def one_array(devices: int, **settings: Any) -> list[int]:
    """The batches of an epoch from a source that writes each into the same array."""
    x, y = batch(0.0)

    def rows() -> Iterator[Any]:
        for index in range(100):
            x[:] = 2.0**index
            yield x, y

    sees = _Sees()
    model_on(devices, **settings).fit(rows(), steps_per_epoch=6, verbose=0, callbacks=[sees])
    return sees.seen


def raises(devices: int, **settings: Any) -> int:
    """The number of steps before the error of a source that raises at its fifth batch."""
    steps: list[int] = []

    def rows() -> Iterator[Any]:
        for index in range(4):
            yield batch(float(index))
        raise OSError

    model = model_on(devices, **settings)
    with contextlib.suppress(OSError):
        model.fit(rows(), steps_per_epoch=9, callbacks=[After(lambda: steps.append(0))], verbose=0)
    return len(steps)
