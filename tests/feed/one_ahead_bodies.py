"""Bodies that run in a worker with JAX, in which Keras believes that it trains on a GPU."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from tests.feed.order_bodies import After, Rows, batch, batches_of, model_on, powers, said


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

    def __init__(self, stops_after: int = 0) -> None:
        super().__init__()
        self.seen: list[int] = []
        self._stops_after = stops_after
        self._total = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        total = round((logs or {})["loss"] * (batch + 1))
        self.seen.append(total - self._total if batch else total)
        self._total = total
        self.model.stop_training |= len(self.seen) == self._stops_after


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


def fits_until_it_raises(devices: int, **settings: Any) -> list[Any]:
    """The steps of three fits on a generator that raises at its eighth batch; a callback ends the first fit at step four."""
    rows = (batch(2.0**index) if index < 7 else _raise() for index in range(100))
    model, found = model_on(devices, **settings), []
    for steps in (4, 9, 9):
        sees = _Sees(stops_after=steps)
        with contextlib.suppress(OSError, ValueError):
            model.fit(rows, steps_per_epoch=9, callbacks=[sees], verbose=0)
        found.append(len(sees.seen))
    return found


def _raise() -> Any:
    raise OSError


def without_rows_after_the_last_step(devices: int, **settings: Any) -> int:
    """The steps of a fit whose source would next give a batch that no step can take."""
    empty = np.zeros((0, 1), "float32")
    rows = ((empty, empty) if index == 3 else batch(1.0) for index in range(9))
    sees = _Sees()
    model_on(devices, **settings).fit(rows, steps_per_epoch=3, callbacks=[sees], verbose=0)
    return len(sees.seen)


def parts_in_one_array() -> list[float]:
    """The values of batches that are read in part, from a source that writes each into the same array."""
    from abreast.feed.one_ahead import OneAhead
    from abreast.feed.parts import Part
    from abreast.staging import NUMPY_LEAVES

    memory = np.zeros((2, 1), "float32")

    def parts() -> Iterator[Any]:
        for index in range(4):
            memory[:] = index
            yield Part((memory[:1],), 2, range(1), 0)

    return [float(part.data[0][0, 0]) for part in OneAhead(parts(), NUMPY_LEAVES, lambda: None)]


def two_restarts_without_a_step(kind: str, folder: str, signals: tuple[str, ...]) -> list[Any]:
    """The weights of a training, undisturbed and ended by signals: "step" before a step, "validation" in the first validation."""
    return [_drawing_fit(kind), _interrupted_fit(kind, folder, signals)]


def _interrupted_fit(kind: str, folder: str, signals: tuple[str, ...]) -> Any:
    import abreast
    from abreast.checkpoints import stop, which_fit
    from abreast.replacing import replaced

    for signal in signals:
        which_fit.as_in_a_new_process()
        asked: list[str] = []
        with replaced(stop, "requested", lambda asked=asked: asked[0] if asked else None):
            try:
                _drawing_fit(kind, _Asks(signal, asked), abreast.Checkpoint(folder, every=1))
            except stop.Interrupted:
                continue
        raise AssertionError(f"not ended by a signal: {signal}")
    which_fit.as_in_a_new_process()
    return _drawing_fit(kind, _Asks("never", []), abreast.Checkpoint(folder, every=1))


class _Asks(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Asks for the end of a fit: "start" at once, "step" after two steps, "validation" in the first validation."""

    def __init__(self, when: str, asked: list[str]) -> None:
        super().__init__()
        self._when, self._asked, self._steps = when, asked, 0

    def on_train_begin(self, logs: Any = None) -> None:
        self._ask("start")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._steps += 1
        if self._steps == 3:
            self._ask("step")

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._ask("validation")

    def _ask(self, when: str) -> None:
        if when == self._when and not self._asked:
            self._asked.append("SIGTERM")

    def get_state(self) -> int:
        return 0

    def set_state(self, state: int) -> None:
        pass


def _draw() -> None:
    np.random.rand()


def _drawing_fit(kind: str, *callbacks: Any) -> list[float]:
    """The weights after two epochs; the source and a callback draw from NumPy's generator."""
    model = model_on(2, rate=0.1)
    source: Any = Rows(np.random.rand)
    if kind == "generator":
        source = (batch(np.random.rand()) for _ in range(100))
    model.fit(
        *(source, None, None, 2, 0, [After(_draw), *callbacks]),
        validation_data=(np.ones((8, 1), "float32"), np.ones((8, 1), "float32")),
        validation_batch_size=4,
        shuffle=False,
        steps_per_epoch=6,
    )
    return [float(each) for each in model.get_weights()[0].ravel()]
