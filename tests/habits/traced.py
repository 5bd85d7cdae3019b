"""Layers whose `call` is under `tf.function`, which plain Keras traces to build a model. Imports TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tests.habits.data import regression


class Lazy(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    def __init__(self) -> None:
        super().__init__()
        self.hidden = keras.layers.Dense(4, "tanh")

    def build(self, shape: Any) -> None:
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

    @tf.function  # type: ignore[untyped-decorator]
    def call(self, x: Any) -> Any:
        self.count.assign_add(1.0)
        self.add_loss(0.1 * tf.reduce_mean(x**2))
        return self.hidden(x)


class Nested(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    def __init__(self) -> None:
        super().__init__()
        self.hidden = keras.layers.Dense(4, "tanh")

    @tf.function  # type: ignore[untyped-decorator]
    def call(self, x: Any, training: bool = False) -> Any:
        return self.hidden(x)


class Outer(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.nested, self.last = Nested(), keras.layers.Dense(1)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.last(self.nested(x, training=training))


def train(run_eagerly: bool) -> dict[str, Any]:
    """Train a model with each of these layers."""
    x, y = regression(rows=64)
    model = keras.Sequential([keras.Input((6,)), Lazy(), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=run_eagerly)
    history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
    outer = Outer()
    outer.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=run_eagerly)
    outer.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
    return {"model": model, "history": history, "outer": outer}
