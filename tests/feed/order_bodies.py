"""Bodies of the tests of the order in which sources are read; they run in a worker. `devices=0` is plain Keras.

The model multiplies by one and its loss is the mean: with batches of powers of two, an epoch's loss says which it was.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np


def model_on(devices: int, rate: float = 0.0, **settings: Any) -> Any:
    keras.utils.clear_session()
    keras.utils.set_random_seed(7)
    layers = [keras.layers.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.SGD(rate), loss=_mean)
    if not devices:
        return model
    import abreast

    return abreast.parallelize(model, devices=devices, **settings)


def _mean(y: Any, prediction: Any) -> Any:
    return keras.ops.mean(prediction + 0 * y, axis=-1)


def batch(value: float) -> tuple[Any, Any]:
    return np.full((4, 1), value, "float32"), np.zeros((4, 1), "float32")


def powers() -> Iterator[Any]:
    for index in range(1000):
        yield batch(2.0**index)


def batches_of(loss: float, steps: int) -> list[int]:
    total = round(loss * steps)
    return [index for index in range(60) if total >> index & 1]


class Rows(keras.utils.PyDataset):  # type: ignore[misc]
    """A data set in this process; a function makes each row."""

    def __init__(self, value: Callable[[], float], length: int = 6, **settings: Any) -> None:
        super().__init__(**settings)
        self.value, self.length = value, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return batch(self.value())


class After(keras.callbacks.Callback):  # type: ignore[misc]
    """A callback of the user's that acts on batches."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self.act = act

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.act()


@contextlib.contextmanager
def said() -> Iterator[io.StringIO]:
    """The lines on stderr, including those that earlier calls in this process printed."""
    if "abreast" in sys.modules:
        with contextlib.suppress(ImportError):
            from abreast.feed import habits

            habits._reported.clear()
    with contextlib.redirect_stderr(io.StringIO()) as text:
        yield text


def one_generator(devices: int) -> dict[str, list[list[int]]]:
    """The batches of each epoch where training and validation share a generator."""
    rows = powers()
    fit = model_on(devices).fit(
        rows, steps_per_epoch=4, epochs=2, validation_data=rows, validation_steps=2, shuffle=False, verbose=0
    )
    steps = {"loss": 4, "val_loss": 2}
    return {name: [batches_of(each, steps[name]) for each in fit.history[name]] for name in steps}


def shared_draws(devices: int, generator: bool) -> dict[str, list[float]]:
    """The losses where the sources of training and validation draw from NumPy's global generator.

    `generator`: that of validation is one, from which Keras takes two batches when it opens it.
    """
    model = model_on(devices)
    train: Any = Rows(np.random.rand)
    held_out: Any = Rows(np.random.rand, 3)
    if generator:
        held_out = (batch(np.random.rand()) for _ in range(100))
    fit = model.fit(
        train,
        initial_epoch=1,
        epochs=5,
        validation_data=held_out,
        validation_freq=2,
        validation_steps=3,
        shuffle=False,
        verbose=0,
    )
    alone = model.evaluate(Rows(np.random.rand), verbose=0), model.predict(Rows(np.random.rand), verbose=0).ravel()
    return {**fit.history, "alone": [alone[0], *map(float, alone[1])], "next": [np.random.rand()]}


def curriculum(devices: int, generator: bool = False, **settings: Any) -> dict[str, Any]:
    """The powers that a source yielded, which reads the count of a callback; and the lines on stderr."""
    counted: list[int] = []
    rows: Any = Rows(lambda: 2.0 ** len(counted), 8)
    if generator:
        rows = (batch(2.0 ** len(counted)) for _ in range(100))
    with said() as text:
        fit = model_on(devices, **settings).fit(
            rows, steps_per_epoch=8, callbacks=[After(lambda: counted.append(0))], shuffle=False, verbose=0
        )
    return {"batches": batches_of(fit.history["loss"][0], 8), "said": text.getvalue()}


def counting_step(devices: int) -> dict[str, Any]:
    """The powers that a data set yielded, which reads the count of the model's own step that runs as Python."""
    counted: list[int] = []
    built = model_on(0)

    class Counts(keras.Model):  # type: ignore[misc]
        def train_step(self, *arguments: Any) -> Any:
            counted.append(0)
            return super().train_step(*arguments)

    model = Counts(built.inputs, built.outputs)
    model.compile(keras.optimizers.SGD(0.0), loss=_mean, run_eagerly=True)
    if devices:
        import abreast

        abreast.parallelize(model, devices=devices)
    with said() as text:
        fit = model.fit(Rows(lambda: 2.0 ** len(counted), 8), shuffle=False, verbose=0)
    return {"batches": batches_of(fit.history["loss"][0], 8), "said": text.getvalue()}


def weights_in_the_source(devices: int, **settings: Any) -> dict[str, Any]:
    """The losses of a source that makes its rows from the weights and the number of steps; and the lines on stderr."""
    model = model_on(devices, rate=0.1, **settings)

    def rows() -> Iterator[Any]:
        while True:
            yield batch(float(model.get_weights()[0][0, 0]) + int(model.optimizer.iterations))

    with said() as text:
        try:
            losses: Any = model.fit(rows(), steps_per_epoch=6, epochs=2, verbose=0).history["loss"]
        except TypeError as error:  # on JAX: Keras keeps the weights elsewhere while it trains
            losses = [str(error)]
    return {"losses": losses, "said": text.getvalue()}


def draws_in_the_loss(devices: int, **settings: Any) -> dict[str, Any]:
    """The losses if the source and the loss both draw from NumPy's global generator; and the lines on stderr."""
    model = model_on(devices, **settings)
    model.compile(
        keras.optimizers.SGD(0.0), loss=lambda y, prediction: np.random.rand() * _mean(y, prediction), run_eagerly=True
    )
    with said() as text:
        fit = model.fit(Rows(np.random.rand, 12), shuffle=False, verbose=0)
    return {"losses": fit.history["loss"], "said": text.getvalue()}


def fit_after_an_early_end(devices: int, **settings: Any) -> list[list[int]]:
    """The batches of two fits on a generator, after one that ended at its fourth batch, and the one that comes then."""
    rows = (batch(float("nan") if index == 3 else 2.0**index) for index in range(1000))
    stop = keras.callbacks.TerminateOnNaN()
    with said():
        model_on(devices, **settings).fit(rows, steps_per_epoch=30, callbacks=[stop], verbose=0)
    found = []
    for _ in range(2):
        fit = model_on(devices, **settings).fit(rows, steps_per_epoch=3, verbose=0)
        found.append(batches_of(fit.history["loss"][0], 3))
    return found


def dataset_after_an_early_end(devices: int, prefetch: int) -> str:
    """The lines on stderr if a callback ends a fit after the reader had time to read further."""
    model = model_on(devices, prefetch=prefetch)
    steps: list[int] = []

    def stop_at_the_fifth() -> None:
        steps.append(0)
        time.sleep(0.2 if len(steps) == 5 else 0.0)
        model.stop_training = len(steps) == 5

    with said() as text:
        model.fit(Rows(lambda: 1.0, 30), callbacks=[After(stop_at_the_fifth)], shuffle=False, verbose=0)
    return text.getvalue()


def teacher_in_the_source(devices: int, **settings: Any) -> dict[str, Any]:
    """The losses of a student whose source calls another placed model; and the lines on stderr."""
    teacher = model_on(devices, **settings)
    student = model_on(devices, **settings)

    def rows() -> Iterator[Any]:
        for index in range(100):
            x, y = batch(float(index))
            yield teacher.predict(x, verbose=0) + index, y

    with said() as text:
        fit = student.fit(rows(), steps_per_epoch=6, verbose=0)
    return {"losses": fit.history["loss"], "said": text.getvalue()}


def python_in_pipelines() -> list[bool]:
    """For three pipelines of `tf.data`, whether they run Python in this process."""
    import tensorflow as tf
    from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

    from abreast.feed.in_process import runs_here

    plain = tf.data.Dataset.from_tensor_slices(np.zeros((8, 1))).map(lambda row: row + 1).batch(4)
    made = tf.data.Dataset.from_generator(lambda: iter([batch(0)[0]]), output_signature=tf.TensorSpec((4, 1))).repeat()
    mapped = plain.map(lambda row: tf.py_function(lambda each: each, [row], tf.float64)).prefetch(2)
    return [runs_here(TFDatasetAdapter(each)) for each in (plain, made, mapped)]


def shuffles_beside(kind: str, devices: int) -> list[float]:
    """Epochs of shuffled arrays, beside sources of `kind`: random draws of opening those change the shuffles."""
    model = model_on(devices, rate=0.1)
    x = np.random.default_rng(0).normal(size=(12, 1)).astype("float32")
    y = np.zeros((12, 1), "float32")
    found: list[float] = []
    for _ in range(2):
        history = model.fit(x, y, batch_size=4, epochs=2, validation_data=_source(kind, x, y), verbose=0).history
        model.predict(_source(kind, x), verbose=0)
        model.fit(_source(kind, x, y), verbose=0)
        # The weight alone tells of no order here: each step adds the mean of its rows.
        ordered = model.fit(x, y, batch_size=8, validation_data=_source(kind, x, y), verbose=0).history
        found += [*history["val_loss"], *ordered["loss"], *ordered["val_loss"]]
    return found


def _source(kind: str, *arrays: Any) -> Any:
    if kind == "torch":
        import torch

        held = torch.utils.data.TensorDataset(*map(torch.from_numpy, arrays))
        return torch.utils.data.DataLoader(held, batch_size=4)
    if kind == "grain":
        import grain

        rows = [tuple(array[i] for array in arrays) for i in range(len(arrays[0]))]
        return grain.MapDataset.source(rows).to_iter_dataset().batch(4)
    if kind == "PyDataset":
        return _Rows(arrays)
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0]).batch(4)


class _Rows(keras.utils.PyDataset):  # type: ignore[misc]
    def __init__(self, arrays: tuple[Any, ...]) -> None:
        super().__init__()
        self._arrays = arrays

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        rows = tuple(array[4 * index : 4 * index + 4] for array in self._arrays)
        return rows if len(rows) > 1 else rows[0]
