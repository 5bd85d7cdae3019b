"""A model whose own step has two optimizers: one for its first layers, one for the last."""

from __future__ import annotations

from typing import Any

import keras


class TwoOptimizers(keras.Model):  # type: ignore[misc]
    def compile(self, first: Any, second: Any) -> None:
        super().compile(loss="mse")
        self.first, self.second = first, second

    @property
    def halves(self) -> tuple[Any, Any]:
        weights = self.trainable_variables
        return weights[:-2], weights[-2:]


class TwoTensorFlow(TwoOptimizers):
    def train_step(self, data: Any) -> Any:
        import tensorflow as tf

        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        for optimizer, half in zip((self.first, self.second), self.halves, strict=True):
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True), weights)
            optimizer.apply(tape.gradient(loss, half), half)
        return {"loss": loss}


class TwoTorch(TwoOptimizers):
    def train_step(self, data: Any) -> Any:
        import torch

        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        for optimizer, half in zip((self.first, self.second), self.halves, strict=True):
            self.zero_grad()
            loss = self.compute_loss(x, y, self(x, training=True), weights)
            loss.backward()
            with torch.no_grad():
                optimizer.apply([each.value.grad for each in half], half)
        return {"loss": loss.detach()}


def compiled(model: Any) -> Any:
    """The model with that step; on JAX, whose steps have one optimizer, with a schedule and a clipped one."""
    if keras.backend.backend() == "jax":
        model.compile(keras.optimizers.AdamW(keras.optimizers.schedules.ExponentialDecay(0.02, 5, 0.9)), "mse")
        return model
    kind = {"tensorflow": TwoTensorFlow, "torch": TwoTorch}[keras.backend.backend()]
    two = kind(model.inputs[0], model.outputs[0])
    two.compile(keras.optimizers.Adam(0.02), keras.optimizers.SGD(0.01, momentum=0.9))
    return two
