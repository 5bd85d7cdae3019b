"""`WithHead`: a model whose `call` is only the encoder; its step calls a head, which no `call` builds. Imports Keras.

On TensorFlow the head has its own optimizer. On JAX plain Keras cannot do this.
"""

from __future__ import annotations

from typing import Any

import keras

from tests.habits.data import regression


class WithHead(keras.Model):  # type: ignore[misc]  # Keras has no types
    def __init__(self) -> None:
        super().__init__()
        self.encoder = keras.layers.Dense(8, "relu")
        self.head = keras.Sequential(
            [keras.layers.Dense(4, "tanh"), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
        )
        self.head_optimizer = keras.optimizers.Adam(0.01)

    def call(self, x: Any) -> Any:
        return self.encoder(x)

    def train_step(self, data: Any) -> Any:
        return getattr(self, f"_{keras.backend.backend()}_step")(*data)

    def _loss(self, x: Any, y: Any) -> Any:
        return keras.ops.mean(keras.ops.square(self.head(self(x, training=True), training=True) - y))

    def _tensorflow_step(self, x: Any, y: Any) -> dict[str, Any]:
        import tensorflow as tf

        with tf.GradientTape(persistent=True) as tape:
            loss = self._loss(x, y)
        for optimizer, part in ((self.optimizer, self.encoder), (self.head_optimizer, self.head)):
            variables = part.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"loss": loss}

    def _torch_step(self, x: Any, y: Any) -> dict[str, Any]:
        import torch

        self.zero_grad()
        loss = self._loss(x, y)
        loss.backward()
        variables = self.encoder.trainable_variables
        with torch.no_grad():
            self.optimizer.apply([variable.value.grad for variable in variables], variables)
            for variable in self.head.trainable_variables:
                variable.assign(variable.value - 0.05 * variable.value.grad)
        return {"loss": loss}


def train(**settings: Any) -> dict[str, Any]:
    """The history of `fit`, and the weights."""
    x, y = regression(rows=48)
    model = WithHead()
    model.compile(keras.optimizers.SGD(0.05), "mse", **settings)
    history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
    return {"history": history, "weights": [keras.ops.convert_to_numpy(variable) for variable in model.variables]}
