"""Models in which a layer relates the rows of a batch to one another: `MODELS[name]()` in a worker. Not here: the checks.

Each of them differed silently on several devices of TensorFlow and PyTorch before the row check existed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops


class Centered(layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return x - ops.mean(x, axis=0, keepdims=True)


class CenteredInTraining(layers.Layer):  # type: ignore[misc]
    def call(self, x: Any, training: Any = None) -> Any:
        return x - ops.mean(x, axis=0, keepdims=True) if training else x


class Attends(layers.Layer):  # type: ignore[misc]
    """Every row to every other."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], shape[-1]), initializer="glorot_uniform")

    def call(self, x: Any) -> Any:
        scores = ops.softmax(ops.matmul(ops.matmul(x, self.kernel), ops.transpose(x)) / 4.0, axis=-1)
        return x + ops.matmul(scores, x)


class AddsSum(layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        self.add_loss(1e-2 * ops.sum(ops.square(x)))
        return x


class AddsMeanAndRoot(layers.Layer):  # type: ignore[misc]
    """Two losses, of which the second is neither a mean nor a sum over rows."""

    def call(self, x: Any) -> Any:
        self.add_loss(0.1 * ops.mean(ops.square(x)))
        self.add_loss(ops.sqrt(ops.sum(ops.square(x))))
        return x


class AddsContrast(layers.Layer):  # type: ignore[misc]
    """Each row shall be unlike the others."""

    def call(self, x: Any) -> Any:
        logits = ops.matmul(x, ops.transpose(x))
        labels = ops.arange(ops.shape(x)[0])
        self.add_loss(ops.mean(keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)))
        return x


class Counts(layers.Layer):  # type: ignore[misc]
    """How many rows there were, as a floating and a whole number."""

    def build(self, shape: Any) -> None:
        self.rows = self.add_weight(shape=(), initializer="zeros", trainable=False, name="rows")
        self.number = self.add_weight(shape=(), initializer="zeros", trainable=False, dtype="int32", name="number")

    def call(self, x: Any) -> Any:
        rows = ops.sum(ops.ones_like(x[:, 0]))
        self.rows.assign_add(rows)
        self.number.assign_add(ops.cast(rows, "int32"))
        return x


class RunningMean(layers.Layer):  # type: ignore[misc]
    """In `evaluate` and `predict` too."""

    def build(self, shape: Any) -> None:
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False, name="mean")

    def call(self, x: Any) -> Any:
        self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(x, axis=0))
        return x


class RunningDeviation(layers.Layer):  # type: ignore[misc]
    """Which its own output uses."""

    def build(self, shape: Any) -> None:
        self.deviation = self.add_weight(shape=(shape[-1],), initializer="ones", trainable=False, name="deviation")

    def call(self, x: Any, training: Any = None) -> Any:
        if training:
            self.deviation.assign(0.9 * self.deviation + 0.1 * ops.std(x, axis=0))
        return x / (0.1 + self.deviation)


class Recommends(keras.Model):  # type: ignore[misc]
    """As in Keras's example `collaborative_filtering_movielens`: `tensordot` contracts over the batch too."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.movies = layers.Dense(6), layers.Dense(6)
        self.bias = layers.Dense(1)

    def call(self, x: Any) -> Any:
        return ops.sigmoid(ops.tensordot(self.users(x), self.movies(x), 2) / 50 + self.bias(x))


class CentersBetween(keras.Model):  # type: ignore[misc]
    """Between its layers, with outputs by name."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = layers.Dense(6, activation="tanh"), layers.Dense(1)

    def call(self, x: Any) -> Any:
        hidden = self.first(x)
        return {"y": self.last(hidden - ops.mean(hidden, axis=0))}


class Pairs(keras.Model):  # type: ignore[misc]
    """Gives a number for each pair of rows, so that nothing says which axis has the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(4)

    def call(self, x: Any) -> Any:
        hidden = self.dense(x)
        return ops.matmul(hidden, ops.transpose(hidden))


def around(*middle: Any, batch_norm: bool = True) -> Any:
    norm = [layers.BatchNormalization()] if batch_norm else []
    first, last = layers.Dense(6, activation="tanh"), layers.Dense(1)
    return keras.Sequential([keras.Input((5,)), first, *middle, *norm, layers.Dropout(0.0), last])


def contracting() -> Any:
    """An operation of a functional model, nested in another."""
    inner_inputs = keras.Input((5,))
    one, other = layers.Dense(3)(inner_inputs), layers.Dense(3)(inner_inputs)
    inner = keras.Model(inner_inputs, layers.Dense(1)(one) + ops.tensordot(one, other, 2) / 100)
    inputs = keras.Input((5,))
    return keras.Model(inputs, layers.Dense(1)(inner(layers.Dense(5)(inputs))))


def attending_over_rows() -> Any:
    """Keras's own layers, with the batch as an axis like others."""
    inputs = keras.Input((5,))
    hidden = layers.Dense(4)(inputs)
    return keras.Model(inputs, layers.Dense(1)(hidden * layers.Softmax(axis=0)(hidden)))


def with_lambda() -> Any:
    return around(layers.Lambda(lambda x: x - ops.max(x, axis=0, keepdims=True)), batch_norm=False)


MODELS: dict[str, Callable[[], Any]] = {
    "centered": lambda: around(Centered()),
    "centered_in_training": lambda: around(CenteredInTraining()),
    "attends": lambda: around(Attends(), batch_norm=False),
    "adds_sum": lambda: around(AddsSum()),
    "adds_mean_and_root": lambda: around(AddsMeanAndRoot()),
    "adds_contrast": lambda: around(AddsContrast()),
    "counts": lambda: around(Counts()),
    "running_mean": lambda: around(RunningMean()),
    "running_deviation": lambda: around(RunningDeviation()),
    "recommends": Recommends,
    "centers_between": CentersBetween,
    "contracting": contracting,
    "attending_over_rows": attending_over_rows,
    "with_lambda": with_lambda,
}

REFUSED: dict[str, Callable[[], Any]] = {"pairs": Pairs}
