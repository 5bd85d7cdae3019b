"""Small models for steps of one's own, which take gradients on TensorFlow and on PyTorch alike. Imports Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops


class Stepping(keras.Model):  # type: ignore[misc]  # Keras has no types
    def __init__(self, *layers: Any) -> None:
        super().__init__()
        self.body = keras.Sequential([keras.layers.Dense(6, "tanh"), *layers, keras.layers.Dense(1)])

    def call(self, x: Any, training: bool = False) -> Any:
        return self.body(x, training=training)

    def squares(self, x: Any, y: Any) -> Any:
        return ops.mean(ops.square(self(x, training=True) - y))

    def gradients(self, loss_of: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """The loss, and its gradients for `trainable_weights`."""
        weights = self.trainable_weights
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            with tf.GradientTape() as tape:
                loss = loss_of()
            return loss, tape.gradient(loss, weights)
        self.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss, [weight.value.grad for weight in weights]

    def descend(self, x: Any, y: Any, optimizer: Any) -> Any:
        """The loss, after a step of an optimizer."""
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        self.apply(optimizer, gradients)
        return loss

    def apply(self, optimizer: Any, gradients: list[Any]) -> None:
        if keras.backend.backend() == "tensorflow":
            optimizer.apply(gradients, self.trainable_weights)
            return
        import torch

        with torch.no_grad():
            optimizer.apply(gradients, self.trainable_weights)


class Labelled(Stepping):
    """The loss is a mean over the rows with a label: -1 and NaN are none."""

    def squares(self, x: Any, y: Any) -> Any:
        known = ops.cast(ops.logical_and(y != -1, ~ops.isnan(y)), "float32")
        far = ops.square(self(x, training=True) - ops.nan_to_num(y))
        return ops.sum(known * far) / ops.sum(known)

    def train_step(self, data: Any) -> Any:
        x, y = data
        return {"loss": self.descend(x, y, self.optimizer)}
