"""Layers with a state that some code may assign, or none."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


class RunningMean(keras.layers.Layer):  # type: ignore[misc]
    def build(self, shape: Any) -> None:
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False)

    def call(self, inputs: Any, training: Any = None) -> Any:
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(inputs, axis=0))
        return inputs


class Shifted(keras.layers.Layer):  # type: ignore[misc]
    """Its own state is a constant, beside a layer with a running mean that it may set back."""

    def build(self, shape: Any) -> None:
        self.watched = RunningMean()
        self.watched.build(shape)
        self.shift = self.add_weight(shape=(1,), initializer="ones", trainable=False)

    def call(self, inputs: Any, training: Any = None) -> Any:
        return self.watched(inputs, training=training) + self.shift

    def forget(self) -> None:
        self.watched.mean.assign(ops.zeros_like(self.watched.mean))


def move(layer: Any, far: float) -> None:
    _add(layer.shift, far)


def _add(variable: Any, far: float) -> None:
    variable.assign(variable + far)


class MovedByAFunction(Shifted):
    def later(self) -> None:
        move(self, 1.0)


class MovedInAList(Shifted):
    def build(self, shape: Any) -> None:
        super().build(shape)
        self.all = [self.shift]

    def later(self) -> None:
        for each in self.all:
            each.assign(each + 1.0)


class MovedByName(Shifted):
    def later(self) -> None:
        getattr(self, "sh" + "ift").assign([0.0])


class MovedAsAVariable(Shifted):
    def later(self) -> None:
        self.variables[-1].assign([0.0])


class InAListOnly(keras.layers.Layer):  # type: ignore[misc]
    def build(self, shape: Any) -> None:
        self.all = [self.add_weight(shape=(1,), initializer="ones", trainable=False)]

    def call(self, inputs: Any) -> Any:
        return inputs + self.all[0]


class Anneals(keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.shift: Any = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.shift.assign([0.5 * epoch])


_annealing = Anneals()


class ChangedByACallback(keras.layers.Layer):  # type: ignore[misc]
    def build(self, shape: Any) -> None:
        self.shift = _annealing.shift = self.add_weight(shape=(1,), initializer="ones", trainable=False)

    def call(self, inputs: Any) -> Any:
        return inputs + _annealing.shift


class CallsACallback(ChangedByACallback):
    def call(self, inputs: Any) -> Any:
        _annealing.on_epoch_begin(1)
        return super().call(inputs)
