"""Models with a `train_step` of the user's own, on TensorFlow and PyTorch: `MODELS[name]()` in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from tests import relating


class Steps(keras.Model):  # type: ignore[misc]
    """A dense layer after a BatchNormalization, and the mean of squares."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dense = layers.BatchNormalization(), layers.Dense(1)
        self.seed_generator = keras.random.SeedGenerator(3)

    def call(self, x: Any, training: Any = None) -> Any:
        return self.dense(self.norm(x, training=training))

    def loss_of(self, x: Any, y: Any) -> Any:
        return ops.mean(ops.square(self(x, training=True) - y))

    def changed(self, gradients: list[Any]) -> list[Any]:
        return gradients

    def train_step(self, data: Any) -> Any:
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        if keras.backend.backend() == "torch":
            import torch

            self.zero_grad()
            loss = self.loss_of(x, y)
            loss.backward()
            weights = self.trainable_weights
            with torch.no_grad():
                self.optimizer.apply(self.changed([weight.value.grad for weight in weights]), weights)
            return {"loss": loss.detach()}
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = self.loss_of(x, y)
        weights = self.trainable_weights
        gradients = self.changed(tape.gradient(loss, weights))
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"loss": loss}


class Drawing(Steps):
    """Noise of the framework's own on its input, as in an adversarial or a diffusion model."""

    def loss_of(self, x: Any, y: Any) -> Any:
        return super().loss_of(x + keras.random.normal(ops.shape(x), seed=self.seed_generator), y)


class Summing(Steps):
    def loss_of(self, x: Any, y: Any) -> Any:
        return ops.sum(ops.square(self(x, training=True) - y))


class Clipping(Steps):
    def changed(self, gradients: list[Any]) -> list[Any]:
        return [ops.clip(gradient, -0.1, 0.1) for gradient in gradients]


class Contrasting(Steps):
    """Each row's own among all rows of the batch."""

    def loss_of(self, x: Any, y: Any) -> Any:
        hidden = self(x, training=True)
        logits = ops.matmul(hidden, ops.transpose(ops.concatenate([hidden[1:], hidden[:1]], axis=0)))
        labels = ops.arange(ops.shape(x)[0])
        return ops.mean(keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True))


class Centered(Steps):
    def __init__(self) -> None:
        super().__init__()
        self.centering = relating.Centered()

    def call(self, x: Any, training: Any = None) -> Any:
        return super().call(self.centering(x), training=training)


MODELS: dict[str, Callable[[], Any]] = {
    "mean": Steps,
    "drawing": Drawing,
    "sum": Summing,
    "clipping": Clipping,
    "contrast": Contrasting,
    "centered": Centered,
}
