"""The models of the contract tests by name: `MODELS[name](case)` returns one, built (except "unbuilt") and not compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from tests.contract.cases import Case
from tests.contract.pieces import LOSSES
from tests.harness.installed import keras_is_older_than


def set_weights(model: Any, seed: int = 7) -> None:
    """Give a built model weights that depend only on the seed."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        if weight.name in ("gamma", "moving_variance"):
            weight.assign(random.uniform(0.5, 1.5, weight.shape))
        elif "seed" not in weight.name:
            weight.assign(random.uniform(-0.7, 0.7, weight.shape))


def head(case: Case, inputs: Any) -> Any:
    """The last layer, with the width and range that the loss of the case works on."""
    units, activation = {
        "classes": (3, "softmax"),
        "onehot": (3, "softmax"),
        "binary": (1, "sigmoid"),
        "values": (2, "linear"),
        "positive": (2, "softplus"),
        "embedding": (3, "tanh"),
    }[LOSSES[case.loss].target]
    return layers.Dense(units, activation=activation, name="head")(inputs)


def dense(case: Case) -> Any:
    x = inputs = keras.Input((5,))
    x = layers.Dense(4, activation="tanh")(x)
    return keras.Model(inputs, head(case, x))


def conv_norm(case: Case) -> Any:
    x = inputs = keras.Input((5, 5, 1))
    x = layers.Conv2D(3, 3, use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.7)(x)
    x = layers.Activation("tanh")(x)
    x = layers.Dense(4, use_bias=False)(layers.GlobalAveragePooling2D()(x))
    x = layers.BatchNormalization(momentum=0.7)(x)
    return keras.Model(inputs, head(case, x))


def lstm_mask(case: Case) -> Any:
    x = inputs = keras.Input((4,), dtype="int32")
    x = layers.Embedding(6, 3, mask_zero=True)(x)
    x = layers.LSTM(3)(x)
    return keras.Model(inputs, head(case, x))


def sequence_mask(case: Case) -> Any:
    """A mask that reaches the loss and the metrics, and BatchNormalization on the way."""
    x = inputs = keras.Input((4,), dtype="int32")
    x = layers.Embedding(6, 3, mask_zero=True)(x)
    x = layers.BatchNormalization(momentum=0.7)(x)
    x = layers.GRU(3, return_sequences=True)(x)
    return keras.Model(inputs, head(case, x))


def attention(case: Case) -> Any:
    x = inputs = keras.Input((3, 4))
    x = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(2, 2)(
        x, x
    )  # not with Adam: the gradient of the key bias is zero but for rounding
    return keras.Model(inputs, head(case, layers.GlobalAveragePooling1D()(x)))


def multi(case: Case) -> Any:
    """Two inputs and two outputs, by name."""
    a, b = keras.Input((5,), name="a"), keras.Input((3,), name="b")
    x = layers.Dense(4, activation="tanh")(layers.Concatenate()([a, b]))
    label = layers.Dense(3, activation="softmax", name="label")(x)
    value = layers.Dense(2, name="value")(x)
    return keras.Model({"a": a, "b": b}, {"label": label, "value": value})


class Penalty(layers.Layer):  # type: ignore[misc]
    """`add_loss` of a mean over rows and of a constant of the weights."""

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(shape[-1],), name="scale", initializer="ones")

    def call(self, x: Any) -> Any:
        self.add_loss(0.1 * ops.mean(ops.square(x)))
        return x * self.scale


def regularized(case: Case) -> Any:
    x = inputs = keras.Input((5,))
    # Refused before Keras 3.15 (`docs/concepts/contract.md`).
    activity = None if keras_is_older_than("3.15") else "l1"
    x = layers.Dense(4, activation="tanh", kernel_regularizer="l2", activity_regularizer=activity)(x)
    x = Penalty()(x)
    x = layers.Dense(4, activation="tanh", kernel_constraint="max_norm", bias_regularizer="l1")(x)
    return keras.Model(inputs, head(case, x))


class RunningMean(layers.Layer):  # type: ignore[misc]
    """State of its own that follows the rows of a batch: a mean over them."""

    def build(self, shape: Any) -> None:
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False, name="mean")

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.mean.assign(0.5 * self.mean + 0.5 * keras.ops.mean(x, axis=0))
        return x


def running_mean(case: Case) -> Any:
    x = inputs = keras.Input((5,))
    return keras.Model(inputs, head(case, RunningMean()(layers.Dense(4, activation="tanh")(x))))


class Subclassed(keras.Model):  # type: ignore[misc]
    def __init__(self, units: int = 4) -> None:
        super().__init__()
        self.hidden = layers.Dense(units, activation="tanh", use_bias=False)
        self.norm = layers.BatchNormalization(momentum=0.7)
        self.out = layers.Dense(3, activation="softmax")

    def call(self, x: Any, training: bool = False) -> Any:
        return self.out(self.norm(self.hidden(x), training=training))


def subclassed(case: Case) -> Any:
    model = Subclassed()
    model.build((None, 5))
    return model


def sequential(case: Case) -> Any:
    return keras.Sequential(
        [keras.Input((5,)), layers.Dense(4, activation="tanh"), layers.Dense(3, activation="softmax")]
    )


def prepared(case: Case) -> Any:
    """Preprocessing layers in the model, one of them adapted to data."""
    normalization = layers.Normalization()
    normalization.adapt(np.random.default_rng(3).normal(1.0, 2.0, (50, 5)))
    x = inputs = keras.Input((5,))
    x = layers.Dense(4, activation="tanh")(normalization(layers.Rescaling(0.5)(x)))
    return keras.Model(inputs, head(case, x))


def wide(case: Case) -> Any:
    """A model with as many weights as large models: PyTorch's ranks add its gradients in another way than those of small ones."""
    x = inputs = keras.Input((5,))
    for layer in _wide():
        x = layer(x)
    return keras.Model(inputs, head(case, x))


def _wide() -> list[Any]:
    return [
        layers.Dense(25_000, activation="tanh"),
        layers.Reshape((5_000, 5)),
        layers.GlobalAveragePooling1D(),
    ]


class WideWithUnused(keras.Model):  # type: ignore[misc]
    """A model whose weights have several names in torch, and whose loss depends on some of them only."""

    def __init__(self) -> None:
        super().__init__()
        self.body = keras.Sequential([keras.Input((5,)), *_wide()])
        self.unused = layers.Dense(2)
        self.out = layers.Dense(3, activation="softmax")

    def build(self, shape: Any) -> None:
        self.unused.build((None, 5))
        self.out.build((None, 5))

    def call(self, x: Any) -> Any:
        return self.out(self.body(x))


def wide_with_unused(case: Case) -> Any:
    model = WideWithUnused()
    model.build((None, 5))
    return model


def unbuilt(case: Case) -> Any:
    return keras.Sequential(
        [layers.Dense(4, activation="tanh", use_bias=False), layers.BatchNormalization(), layers.Dense(3, "softmax")]
    )


def ctc(case: Case) -> Any:
    x = inputs = keras.Input((6, 2))
    return keras.Model(inputs, layers.Dense(4)(layers.SimpleRNN(3, return_sequences=True)(x)))


MODELS: dict[str, Callable[[Case], Any]] = {
    function.__name__: function
    for function in (
        attention,
        conv_norm,
        ctc,
        dense,
        lstm_mask,
        multi,
        prepared,
        regularized,
        running_mean,
        sequence_mask,
        sequential,
        subclassed,
        unbuilt,
        wide,
        wide_with_unused,
    )
}
