"""In a worker: fits whose callbacks change what a compiled step holds as constants, undisturbed and interrupted."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import keras
import numpy as np

import abreast
from abreast.checkpoints import compiled_step, stop, which_fit
from abreast.checkpoints.snapshot import Snapshot
from abreast.feed import values
from abreast.replacing import replaced
from abreast.stderr import tell_once
from tests.checkpoints.interrupt import Interrupt, until_it_ends

Change = Callable[[Any, int], None]  # of a model, at the begin of an epoch
RUN = {"set by": "the script"}
TABLE = [1.0, 2.0, 3.0]


def runs(
    folder: str,
    change: str,
    stops: tuple[int, ...],
    fits: int = 1,
    left_out: str | None = None,
    signal_in: int | None = None,
) -> tuple[Any, Any, list[list[str]]]:
    """The weights without and with interruptions, and what each process has announced.

    `left_out`: a value that is missing in checkpoints. `signal_in`: the process that gets a signal before its first step.
    """
    said: list[list[str]] = []

    def checkpointed(number: int, interrupt: Interrupt) -> Any:
        with ExitStack() as until_end:
            said.append(until_end.enter_context(_announcements()))
            until_end.enter_context(_without(left_out))
            if number == signal_in:
                until_end.enter_context(replaced(stop, "requested", lambda: "SIGTERM"))
            try:
                return _run(change, fits, interrupt, abreast.Checkpoint(folder, every=1))
            except stop.Interrupted:
                raise InterruptedError from None

    return _run(change, fits), until_it_ends(checkpointed, stops), said


def texts_by_fit(folder: str) -> list[int]:
    """How many texts of values each of three fits computes; the last one has a new step. The loss reads a global list."""

    def loss(y: Any, predicted: Any) -> Any:
        return keras.ops.mean(keras.ops.square(y - predicted), axis=-1) * len(TABLE)

    model = _compiled(loss=loss)
    abreast.parallelize(model, 2)
    x = np.ones((8, 3), "float32")
    counts = []
    for epoch in range(3):
        if epoch == 2:
            model.make_train_function(force=True)
        with _calls_of_text_of_data() as texts:
            callbacks = [abreast.Checkpoint(folder, every=1)]
            model.fit(x, x[:, :1], initial_epoch=epoch, epochs=epoch + 1, verbose=0, callbacks=callbacks)
        counts.append(len(texts))
    return counts


@contextmanager
def _calls_of_text_of_data() -> Iterator[list[Any]]:
    """The values of which a text is computed inside, with the elements of containers that are computed one by one."""
    calls: list[Any] = []
    plain = values.text_of_data

    def text_of_data(value: Any) -> str | None:
        calls.append(value)
        return plain(value)

    with replaced(compiled_step, "text_of_data", text_of_data), replaced(values, "text_of_data", text_of_data):
        yield calls


def texts_inside(value: Any) -> int:
    """How many texts of elements the text of a container takes."""
    with _calls_of_text_of_data() as calls:
        values.text_of_data(value)
    return len(calls) - 1


def _run(change: str, fits: int, *callbacks: Any) -> Any:
    keras.utils.clear_session()
    keras.utils.set_random_seed(3)
    model, at_epoch_begin = _CHANGES[change]()
    abreast.parallelize(model, 2)
    x = np.random.default_rng(2).normal(1, 3, (12, 3)).astype("float32")
    changes = [keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: at_epoch_begin(model, epoch))]
    for number in range(fits):
        epochs = {"initial_epoch": number, "epochs": number + 1} if fits > 1 else {"epochs": 2}
        model.fit(x, x[:, :1], batch_size=4, verbose=0, callbacks=[*changes, *callbacks], **epochs)
    return [each.tolist() for each in model.get_weights()]


def _compiled(*layers: Any, loss: Any = "mse", optimizer: Any = "sgd") -> Any:
    model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)])
    model.compile(optimizer, loss)
    return model


def _set_momentum(model: Any, epoch: int) -> None:
    model.layers[0].momentum = 0.5 + 0.4 / (epoch + 1)


def _momentum() -> tuple[Any, Change]:
    return _compiled(keras.layers.BatchNormalization()), _set_momentum


def _momentum_and_step() -> tuple[Any, Change]:
    def change(model: Any, epoch: int) -> None:
        _set_momentum(model, epoch)
        model.make_train_function(force=True)

    return _compiled(keras.layers.BatchNormalization()), change


def _momentum_that_changes_back() -> tuple[Any, Change]:
    def change(model: Any, epoch: int) -> None:
        _set_momentum(model, epoch)
        _set_momentum(model, 1)

    return _compiled(keras.layers.BatchNormalization()), change


def _closure() -> tuple[Any, Change]:
    return _of_factor(lambda epoch: 1.0 / (epoch + 1))


def _array_in_a_closure() -> tuple[Any, Change]:
    return _of_factor(lambda epoch: keras.ops.convert_to_tensor(1.0 / (epoch + 1)))


def _equal_arrays() -> tuple[Any, Change]:
    return _of_factor(lambda epoch: keras.ops.convert_to_tensor(0.5))


def _of_factor(at: Callable[[int], Any]) -> tuple[Any, Change]:
    """A loss whose closure holds the factor of epoch 0, until a callback puts there that of another epoch."""
    factor = at(0)

    def loss(y: Any, predicted: Any) -> Any:
        return keras.ops.mean(keras.ops.square(y - predicted) * factor, axis=-1)

    def change(model: Any, epoch: int) -> None:
        nonlocal factor
        factor = at(epoch)

    return _compiled(loss=loss, optimizer=keras.optimizers.SGD(1e-3)), change


def _eager_then_compiled() -> tuple[Any, Change]:
    model, change = _eager_then_not()

    def change_step(model: Any, epoch: int) -> None:
        change(model, epoch)
        model.make_train_function(force=True)

    return model, change_step


def _eager_then_not() -> tuple[Any, Change]:
    """The step stays eager: only the setting changes."""
    model = _compiled(keras.layers.BatchNormalization())
    model.compile("sgd", "mse", run_eagerly=True)

    def change(model: Any, epoch: int) -> None:
        model.run_eagerly = epoch == 0

    return model, change


class Subclassed(keras.Model):  # type: ignore[misc]  # Keras has no types
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.dense(x)


def _evaluates() -> tuple[Any, Change]:
    model = Subclassed()
    model.compile("sgd", "mse")

    def change(model: Any, epoch: int) -> None:
        if epoch:
            x = np.ones((4, 3), "float32")
            model.evaluate(x, x[:, :1], verbose=0)
            model.predict(x, verbose=0)

    return model, change


class Scales(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    def call(self, x: Any) -> Any:
        return x * getattr(self, "scale", 1.0)


def _new_attribute() -> tuple[Any, Change]:
    def change(model: Any, epoch: int) -> None:
        if epoch == 1:
            model.layers[0].scale = 0.5

    return _compiled(Scales(), optimizer=keras.optimizers.SGD(1e-3)), change


def _notes_of_a_callback() -> tuple[Any, Change]:
    def change(model: Any, epoch: int) -> None:
        if epoch:
            model.best_epoch = epoch

    return _compiled(), change


class Counts(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    def __init__(self) -> None:
        super().__init__()
        self.calls, self.is_first = 0, True

    def build(self, shape: Any) -> None:
        self.width, self.inner = shape[-1], keras.layers.Dense(2, name="inner")

    def call(self, x: Any) -> Any:
        self.calls += 1
        self.is_first, self.seen = False, tuple(x.shape)
        return self.inner(x)


def _counts_of_calls() -> tuple[Any, Change]:
    model = keras.Sequential([Counts(), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    def change(model: Any, epoch: int) -> None:
        model.layers[1].momentum = 0.5

    return model, change


class Named(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Has data of this process only."""

    def __init__(self) -> None:
        super().__init__()
        self.run, self.seed = uuid.uuid4().hex, int(np.random.default_rng().integers(1000))
        self.made, self.generator = object(), np.random.default_rng()

    def call(self, x: Any) -> Any:
        return x + 0 * len(self.run) + 0 * len(RUN)


def _of_each_process() -> tuple[Any, Change]:
    RUN["set by"] = uuid.uuid4().hex
    return _compiled(Named()), lambda model, epoch: None


def _ordinary() -> tuple[Any, Change]:
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.9)
    optimizer = keras.optimizers.SGD(rate, momentum=0.9, use_ema=True, ema_momentum=0.8)
    return _compiled(keras.layers.Dropout(0.3), optimizer=optimizer), lambda model, epoch: None


def _rate() -> tuple[Any, Change]:
    def change(model: Any, epoch: int) -> None:
        model.optimizer.learning_rate = 0.01 / (epoch + 1)

    return _compiled(keras.layers.BatchNormalization()), change


_CHANGES: dict[str, Callable[[], tuple[Any, Change]]] = {
    "a momentum": _momentum,
    "a closure of the loss": _closure,
    "an array in a closure of the loss": _array_in_a_closure,
    "an attribute that is new in the second epoch": _new_attribute,
    "a momentum and the step": _momentum_and_step,
    "a momentum, which changes back": _momentum_that_changes_back,
    "an attribute that the code of no layer knows": _notes_of_a_callback,
    "attributes that differ in each process": _of_each_process,
    "a learning rate": _rate,
    "a count of the calls that compile a step": _counts_of_calls,
    "an array that is made again": _equal_arrays,
    "eager steps, then compiled ones": _eager_then_compiled,
    "eager steps, then the setting alone": _eager_then_not,
    "nothing, with an evaluation of a subclassed model": _evaluates,
    "nothing, with a schedule, averages and dropout": _ordinary,
}


@contextmanager
def _announcements() -> Iterator[list[str]]:
    """The beginnings of the lines about changed values that abreast says inside, where nothing counts as said before."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    tell_once.cache_clear()
    logging.getLogger("abreast").addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger("abreast").removeHandler(handler)
        lines[:] = [line.partition(", and")[0] for line in lines if "compiled with its former value" in line]


@contextmanager
def _without(left_out: str | None) -> Iterator[None]:
    """Inside, a `fit` finds checkpoints without one of their values."""
    plain: Any = vars(which_fit)["newest_good"]

    def newest_good(*arguments: Any) -> Any:
        if (found := plain(*arguments)) is None:
            return None
        name, saved = found
        return name, Snapshot(saved.tensors, {key: each for key, each in saved.values.items() if key != left_out})

    with replaced(which_fit, "newest_good", newest_good):
        yield
