"""Models of the campaign: compiled, with weights from the present seed. `SHAPE` is that of a row for image sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from tests.contract.own_models import OwnTrainStepJAX, OwnTrainStepTensorFlow, OwnTrainStepTorch

Row = tuple[int, ...]


def plain_structure(x: Any, y: Any) -> Any:
    return x, y


def two_structure(x: Any, y: Any) -> Any:
    return {"left": x[:, :2], "right": x[:, 2:]}, {"one": y, "two": y * 0.5}


def _stack(row: Row, *middle: Any) -> Any:
    inputs = keras.Input(row)
    hidden = layers.Dense(8, "relu")(_numbers(inputs))
    for layer in middle:
        hidden = layer(hidden)
    return keras.Model(inputs, layers.Dense(1)(hidden))


def _numbers(inputs: Any) -> Any:
    return inputs if len(inputs.shape) == 2 else layers.Rescaling(1 / 255)(layers.Flatten()(inputs))


def _compiled(model: Any, optimizer: Any = None, **more: Any) -> Any:
    settings = {"loss": "mse", "metrics": ["mae"], **more}
    model.compile(optimizer or keras.optimizers.Adam(0.02), **settings)
    return model


def dense(row: Row, **more: Any) -> Any:
    return _compiled(_stack(row), **more)


def dropout(row: Row, **more: Any) -> Any:
    return _compiled(_stack(row, layers.Dropout(0.3), layers.GaussianNoise(0.1)), **more)


def batch_normalization(row: Row, **more: Any) -> Any:
    return _compiled(_stack(row, layers.BatchNormalization(momentum=0.7)), **more)


def averages(row: Row, **more: Any) -> Any:
    return _compiled(_stack(row), keras.optimizers.SGD(0.02, momentum=0.9, use_ema=True, ema_momentum=0.8), **more)


def accumulation(row: Row, **more: Any) -> Any:
    optimizer = keras.optimizers.Adam(0.03, use_ema=True, gradient_accumulation_steps=3)
    return _compiled(_stack(row, layers.BatchNormalization()), optimizer, **more)


def bfloat16(row: Row, **more: Any) -> Any:
    keras.config.set_dtype_policy("mixed_bfloat16")
    return _compiled(_stack(row, layers.BatchNormalization()), **more)


def loss_scale(row: Row, **more: Any) -> Any:
    inner = keras.optimizers.Adam(0.02)
    return _compiled(_stack(row), keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0), **more)


def several_inputs(row: Row, **more: Any) -> Any:
    left, right = keras.Input((2,), name="left"), keras.Input((4,), name="right")
    hidden = layers.Dense(6, "tanh")(layers.Concatenate()([left, right]))
    outputs = {"one": layers.Dense(1, name="one")(hidden), "two": layers.Dense(1, name="two")(hidden)}
    model = keras.Model({"left": left, "right": right}, outputs)
    losses, metrics = {"one": "mse", "two": "mae"}, {"one": ["mae"], "two": ["mse"]}
    return _compiled(model, loss=losses, metrics=metrics, loss_weights={"one": 1, "two": 2}, **more)


def own_step(row: Row, **more: Any) -> Any:
    kinds = {"jax": OwnTrainStepJAX, "tensorflow": OwnTrainStepTensorFlow, "torch": OwnTrainStepTorch}
    inputs = keras.Input(row)
    outputs = layers.Dense(1)(layers.Dense(8, "tanh")(_numbers(inputs)))
    return _compiled(kinds[keras.backend.backend()](inputs, outputs), metrics=None, **more)  # it updates none


class Subclassed(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.flatten, self.drop = layers.Flatten(), layers.Dropout(0.2)
        self.hidden, self.out = layers.Dense(8, "relu"), layers.Dense(1)  # the head is the last layer
        self.seen = keras.metrics.Mean("seen")
        self.alpha = 1.0

    def call(self, x: Any, training: bool = False) -> Any:
        hidden = self.hidden(keras.ops.cast(self.flatten(x), "float32") * 0.1)
        return self.out(self.drop(hidden, training=training))


def subclassed(row: Row, **more: Any) -> Any:
    return _compiled(Subclassed(), **more)


def unbuilt(row: Row, **more: Any) -> Any:
    middle = [layers.Dense(8, "relu"), layers.BatchNormalization(momentum=0.8), layers.Dense(1)]
    return _compiled(keras.Sequential([layers.Flatten(), layers.Rescaling(0.2), *middle]), **more)


def augmented(row: Row, **more: Any) -> Any:
    flips = [layers.RandomFlip(seed=3), layers.RandomTranslation(0.3, 0.3, seed=4)]
    shaped = [] if len(row) > 1 else [layers.Reshape((2, 3, 1))]
    rest = [layers.Flatten(), layers.Rescaling(0.3), layers.Dense(8, "relu"), layers.Dense(1)]
    return _compiled(keras.Sequential([keras.Input(row), *shaped, *flips, *rest]), **more)


def frozen(row: Row, **more: Any) -> Any:
    model = _stack(row, layers.BatchNormalization())
    model.layers[-2].trainable = False
    return _compiled(model, **more)


def weighted_metrics(row: Row, **more: Any) -> Any:
    metrics = [keras.metrics.RootMeanSquaredError(), keras.metrics.R2Score()]
    return _compiled(_stack(row), keras.optimizers.Nadam(0.01), metrics=None, weighted_metrics=metrics, **more)


class _Module(layers.TorchModuleWrapper):  # type: ignore[misc]
    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return super().call(inputs, training=training)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


def torch_module(row: Row, **more: Any) -> Any:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
    module.to(getattr(torch, keras.config.floatx()))
    return _compiled(_stack(row, _Module(module)), **more)


def lion(row: Row, **more: Any) -> Any:
    schedule = keras.optimizers.schedules.CosineDecay(0.01, 20)
    return _compiled(_stack(row, layers.LayerNormalization()), keras.optimizers.Lion(schedule), **more)


MODELS: dict[str, Callable[..., Any]] = {
    made.__name__: made
    for made in (
        dense,
        dropout,
        batch_normalization,
        averages,
        accumulation,
        bfloat16,
        loss_scale,
        several_inputs,
        own_step,
        subclassed,
        unbuilt,
        augmented,
        frozen,
        weighted_metrics,
        torch_module,
        lion,
    )
}
