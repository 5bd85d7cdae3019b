"""Layers in front of a benchmark's model: one makes its input on the device, one takes images as bytes.

With the first, only one number per row is copied to the devices, for abreast and for every rival.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("abreast")
class OnDevice(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Makes a row of noise from one number between 0 and 1: floats of shape `shape`, or tokens below `tokens`."""

    def __init__(self, shape: tuple[int, ...], tokens: int | None = None, **settings: Any) -> None:
        super().__init__(**{"dtype": "float32", "trainable": False, **settings})
        self.row_shape, self.tokens = tuple(shape), tokens

    def build(self, input_shape: Any) -> None:
        noise = keras.initializers.RandomUniform(0.0, 1.0, seed=0)
        self.row = self.add_weight(shape=(1, *self.row_shape), initializer=noise, trainable=False, name="row")

    def call(self, numbers: Any) -> Any:
        # The order matters: Keras 3.15 on TensorFlow takes a second summand of n x 1 x 1 for a bias where n is the last axis.
        rows = ops.reshape(numbers, (-1, *([1] * len(self.row_shape)))) + self.row
        if self.tokens is None:
            return rows
        return ops.cast(ops.floor((rows - ops.floor(rows)) * self.tokens), "int32")

    def compute_output_spec(self, numbers: Any) -> Any:
        dtype = "float32" if self.tokens is None else "int32"
        return keras.KerasTensor((numbers.shape[0], *self.row_shape), dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "shape": self.row_shape, "tokens": self.tokens}


def on_device(model: Any, tokens: int | None) -> Any:
    """The model after a layer that makes its input."""
    numbers = keras.Input((1,))
    return _compiled_as(model, keras.Model(numbers, model(OnDevice(model.input_shape[1:], tokens)(numbers))))


def from_bytes(model: Any) -> Any:
    """The model after a layer that converts the bytes of images to floats."""
    images = keras.Input(model.input_shape[1:], dtype="uint8")
    return _compiled_as(model, keras.Model(images, model(keras.layers.Rescaling(1 / 255)(images))))


def _compiled_as(model: Any, whole: Any) -> Any:
    if getattr(model, "compiled", False):
        whole.compile(optimizer=model.optimizer, loss=model.loss)
    return whole
