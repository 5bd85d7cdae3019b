"""Every layer of Keras, and layers of users, that work row by row: `LAYERS[name]` has its maker, and the shape of a row."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers, ops

VECTOR, SEQUENCE, IMAGE, VOLUME = (6,), (5, 4), (8, 8, 3), (6, 6, 6, 2)


class Sampling(layers.Layer):  # type: ignore[misc]
    """As in Keras's example of a variational autoencoder."""

    def __init__(self) -> None:
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(1)

    def call(self, x: Any) -> Any:
        noise = keras.random.normal(ops.shape(x), dtype=x.dtype, seed=self.seed_generator)
        self.add_loss(ops.mean(ops.sum(ops.square(x), axis=1)))
        return x + ops.exp(0.5 * x) * noise


class DrawsItself(layers.Layer):  # type: ignore[misc]
    """A layer that draws from the framework's own generator."""

    def call(self, x: Any) -> Any:
        if keras.backend.backend() == "torch":
            import torch

            return x + torch.randn_like(x)
        import tensorflow as tf

        return x + tf.random.normal(tf.shape(x), dtype=x.dtype)


class Patches(layers.Layer):  # type: ignore[misc]
    """The first axis is that of all patches of all rows, and rows again."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(4)

    def call(self, x: Any) -> Any:
        patches = ops.reshape(x, (-1, 4 * 4 * 3))
        return ops.mean(ops.reshape(self.dense(patches), (-1, 4, 4)), axis=1)


class TimeMajor(layers.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(3)

    def call(self, x: Any) -> Any:
        steps = ops.reshape(ops.transpose(x, (1, 0, 2)), (-1, 4))
        return ops.transpose(ops.reshape(self.dense(steps), (5, -1, 3)), (1, 0, 2))


class Positions(layers.Layer):  # type: ignore[misc]
    """A layer that takes and returns values that are not rows."""

    def build(self, shape: Any) -> None:
        self.table = self.add_weight(shape=(shape[1], shape[2]), initializer="glorot_uniform")
        self.scale = layers.Dense(4)

    def call(self, x: Any) -> Any:
        return x + self.scale(self.table)


class Steps(layers.Layer):  # type: ignore[misc]
    """Counts its calls, in a variable and in Python; and keeps a running mean, which replicas average."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.notes = 0, {"last": 0}
        self.seen: list[int] = []

    def build(self, shape: Any) -> None:
        self.steps = self.add_weight(shape=(), initializer="zeros", trainable=False, dtype="int32")
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False)

    def call(self, x: Any, training: Any = None) -> Any:
        self.calls += 1
        self.seen.append(self.calls)
        self.notes["last"] = self.calls
        if training:
            self.steps.assign_add(1)
            self.mean.assign(0.99 * self.mean + 0.01 * ops.mean(x, axis=tuple(range(len(x.shape) - 1))))
        return 2.0 * x


class Several(layers.Layer):  # type: ignore[misc]
    def call(self, x: Any) -> Any:
        return {"double": 2 * x, "parts": [x[:, :2], (x[:, 2:],)]}


class OwnCell(layers.Layer):  # type: ignore[misc]
    state_size = 3

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1] + 3, 3))

    def call(self, x: Any, states: Any) -> Any:
        output = ops.tanh(ops.matmul(ops.concatenate([x, states[0]], axis=-1), self.kernel))
        return output, [output]


def _attention(layer: Any) -> Any:
    inputs = keras.Input(SEQUENCE)
    return keras.Model(
        inputs, layer(inputs, inputs) if not isinstance(layer, layers.Attention) else layer([inputs, inputs])
    )


def _merged(layer: Any) -> Any:
    inputs = keras.Input(VECTOR)
    return keras.Model(inputs, layer([layers.Dense(6)(inputs), inputs]))


def _merge(name: str) -> Any:
    return _merged(getattr(layers, name)())


def _embedded(*after: Any) -> Any:
    """Whole numbers, with a mask."""
    inputs = keras.Input((6,))
    hidden = layers.Embedding(9, 4, mask_zero=True)(
        ops.cast(ops.clip(ops.nan_to_num(ops.abs(inputs)) * 4, 0, 8), "int32")
    )
    for layer in after:
        hidden = layer(hidden)
    return keras.Model(inputs, hidden)


_of_vectors: dict[str, Callable[[], Any]] = {
    "Dense": lambda: layers.Dense(4, activation="gelu", activity_regularizer="l2"),
    "EinsumDense": lambda: layers.EinsumDense("ab,bc->ac", 5),
    "BatchNormalization": lambda: layers.BatchNormalization(),
    "BatchNormalizationOfSequences": lambda: keras.Sequential(
        [keras.Input(VECTOR), layers.Reshape((3, 2)), layers.BatchNormalization()]
    ),
    "LayerNormalization": lambda: layers.LayerNormalization(),
    "RMSNormalization": lambda: layers.RMSNormalization(),
    "GroupNormalization": lambda: layers.GroupNormalization(3),
    "UnitNormalization": lambda: layers.UnitNormalization(),
    "SpectralNormalization": lambda: layers.SpectralNormalization(layers.Dense(4)),
    "Normalization": lambda: layers.Normalization(mean=0.5, variance=2.0),
    "Rescaling": lambda: layers.Rescaling(0.5, 1.0),
    "Dropout": lambda: layers.Dropout(0.5),
    "AlphaDropout": lambda: layers.AlphaDropout(0.5),
    "GaussianDropout": lambda: layers.GaussianDropout(0.5),
    "GaussianNoise": lambda: layers.GaussianNoise(0.5),
    "Activation": lambda: layers.Activation("softmax"),
    "ELU": lambda: layers.ELU(),
    "LeakyReLU": lambda: layers.LeakyReLU(),
    "PReLU": lambda: layers.PReLU(),
    "ReLU": lambda: layers.ReLU(),
    "Softmax": lambda: layers.Softmax(),
    "ActivityRegularization": lambda: layers.ActivityRegularization(0.1, 0.1),
    "Identity": lambda: layers.Identity(),
    "Lambda": lambda: layers.Lambda(lambda x: x - ops.mean(x, axis=-1, keepdims=True)),
    "Reshape": lambda: layers.Reshape((3, 2)),
    "Flatten": lambda: layers.Flatten(),
    "RepeatVector": lambda: layers.RepeatVector(3),
    "Discretization": lambda: layers.Discretization([-0.5, 0.5]),
    "own: Sampling": Sampling,
    "own: DrawsItself": DrawsItself,
    "own: Steps": Steps,
    "own: Several": Several,
}
_of_sequences: dict[str, Callable[[], Any]] = {
    "LSTM": lambda: layers.LSTM(3, dropout=0.3),
    "GRU": lambda: layers.GRU(3, return_sequences=True, recurrent_dropout=0.3),
    "SimpleRNN": lambda: layers.SimpleRNN(3, unroll=True),
    "RNN": lambda: layers.RNN(OwnCell()),
    "StackedRNNCells": lambda: layers.RNN(layers.StackedRNNCells([layers.LSTMCell(3), layers.GRUCell(2)])),
    "Bidirectional": lambda: layers.Bidirectional(layers.LSTM(3)),
    "TimeDistributed": lambda: layers.TimeDistributed(keras.Sequential([layers.Dense(3), layers.BatchNormalization()])),
    "Conv1D": lambda: layers.Conv1D(3, 3, padding="causal"),
    "SeparableConv1D": lambda: layers.SeparableConv1D(3, 3),
    "Conv1DTranspose": lambda: layers.Conv1DTranspose(3, 3),
    "MaxPooling1D": lambda: layers.MaxPooling1D(2),
    "AveragePooling1D": lambda: layers.AveragePooling1D(2),
    "GlobalMaxPooling1D": lambda: layers.GlobalMaxPooling1D(),
    "GlobalAveragePooling1D": lambda: layers.GlobalAveragePooling1D(),
    "AdaptiveAveragePooling1D": lambda: layers.AdaptiveAveragePooling1D(2),
    "UpSampling1D": lambda: layers.UpSampling1D(2),
    "Cropping1D": lambda: layers.Cropping1D(1),
    "ZeroPadding1D": lambda: layers.ZeroPadding1D(1),
    "Permute": lambda: layers.Permute((2, 1)),
    "Masking": lambda: layers.Masking(0.0),
    "SpatialDropout1D": lambda: layers.SpatialDropout1D(0.5),
    "MultiHeadAttention": lambda: _attention(layers.MultiHeadAttention(2, 3, dropout=0.2)),
    "GroupedQueryAttention": lambda: _attention(layers.GroupQueryAttention(4, 4, 2)),
    "Attention": lambda: _attention(layers.Attention(dropout=0.2)),
    "AdditiveAttention": lambda: _attention(layers.Attention(score_mode="concat")),
    "own: TimeMajor": TimeMajor,
    "own: Positions": Positions,
}
_of_images: dict[str, Callable[[], Any]] = {
    "Conv2D": lambda: layers.Conv2D(4, 3, activation="relu"),
    "DepthwiseConv2D": lambda: layers.DepthwiseConv2D(3),
    "SeparableConv2D": lambda: layers.SeparableConv2D(4, 3),
    "Conv2DTranspose": lambda: layers.Conv2DTranspose(4, 3, strides=2),
    "MaxPooling2D": lambda: layers.MaxPooling2D(),
    "AveragePooling2D": lambda: layers.AveragePooling2D(2),
    "GlobalAveragePooling2D": lambda: layers.GlobalAveragePooling2D(),
    "UpSampling2D": lambda: layers.UpSampling2D(interpolation="bilinear"),
    "ZeroPadding2D": lambda: layers.ZeroPadding2D(),
    "Cropping2D": lambda: layers.Cropping2D(),
    "SpatialDropout2D": lambda: layers.SpatialDropout2D(0.5),
    "BatchNormalizationOfImages": lambda: layers.BatchNormalization(),
    "GroupNormalizationOfImages": lambda: layers.GroupNormalization(3),
    "Resizing": lambda: layers.Resizing(5, 5),
    "CenterCrop": lambda: layers.CenterCrop(5, 5),
    "RandomCrop": lambda: layers.RandomCrop(5, 5),
    "RandomFlip": lambda: layers.RandomFlip(),
    "RandomRotation": lambda: layers.RandomRotation(0.2),
    "RandomTranslation": lambda: layers.RandomTranslation(0.2, 0.2),
    "RandomZoom": lambda: layers.RandomZoom(0.2),
    "RandomShear": lambda: layers.RandomShear(0.2, 0.2),
    "RandomBrightness": lambda: layers.RandomBrightness(0.2),
    "RandomContrast": lambda: layers.RandomContrast(0.2),
    "RandomSaturation": lambda: layers.RandomSaturation(0.2),
    "RandomHue": lambda: layers.RandomHue(0.2),
    "RandomGrayscale": lambda: layers.RandomGrayscale(0.5),
    "RandomSharpness": lambda: layers.RandomSharpness(0.2),
    "RandomPosterization": lambda: layers.RandomPosterization(4),
    "RandomColorJitter": lambda: layers.RandomColorJitter(brightness_factor=0.2),
    "RandomGaussianBlur": lambda: layers.RandomGaussianBlur(),
    "RandomErasing": lambda: layers.RandomErasing(),
    "AutoContrast": lambda: layers.AutoContrast(),
    "Solarization": lambda: layers.Solarization(value_range=(-3, 3)),
    "own: Patches": Patches,
}
_of_volumes: dict[str, Callable[[], Any]] = {
    "Conv3D": lambda: layers.Conv3D(3, 3),
    "Conv3DTranspose": lambda: layers.Conv3DTranspose(3, 3),
    "MaxPooling3D": lambda: layers.MaxPooling3D(),
    "AveragePooling3D": lambda: layers.AveragePooling3D(2),
    "GlobalMaxPooling3D": lambda: layers.GlobalMaxPooling3D(),
    "ConvLSTM2D": lambda: layers.ConvLSTM2D(3, 3),
    "SpatialDropout3D": lambda: layers.SpatialDropout3D(0.5),
    "TimeDistributedOfImages": lambda: layers.TimeDistributed(layers.Conv2D(3, 3)),
}
_models: dict[str, Callable[[], Any]] = {
    **{
        name: functools.partial(_merge, name)
        for name in ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract")
    },
    "Dot": lambda: _merged(layers.Dot(1)),
    "Embedding": lambda: _embedded(layers.LSTM(3)),
    "EmbeddingAndAttention": lambda: _embedded(layers.Bidirectional(layers.GRU(3, return_sequences=True)), Steps()),
    "EmbeddingAndPooling": lambda: _embedded(layers.GlobalAveragePooling1D()),
}
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    **{name: (make, VECTOR) for name, make in {**_of_vectors, **_models}.items()},
    **{name: (make, SEQUENCE) for name, make in _of_sequences.items()},
    **{name: (make, IMAGE) for name, make in _of_images.items()},
    **{name: (make, VOLUME) for name, make in _of_volumes.items()},
}


def model_of(name: str) -> tuple[Any, Any]:
    """A model around a layer, and 8 rows for it."""
    make, shape = LAYERS[name]
    keras.utils.set_random_seed(1)
    made = make()
    if not isinstance(made, keras.Model):
        inputs = keras.Input(shape)
        made = keras.Model(inputs, made(inputs))
    return made, np.random.default_rng(0).normal(size=(8, *shape)).astype("float32")
