"""Layers with a state that some code may assign, or none."""

import keras
from keras import ops


class RunningMean(keras.layers.Layer):
    def build(self, shape):
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False)

    def call(self, inputs, training=None):
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(inputs, axis=0))
        return inputs


class Shifted(keras.layers.Layer):
    """Its own state is a constant, beside a layer with a running mean that it may set back."""

    def build(self, shape):
        self.watched = RunningMean()
        self.watched.build(shape)
        self.shift = self.add_weight(shape=(1,), initializer="ones", trainable=False)

    def call(self, inputs, training=None):
        return self.watched(inputs, training=training) + self.shift

    def forget(self):
        self.watched.mean.assign(ops.zeros_like(self.watched.mean))


def move(layer, far):
    _add(layer.shift, far)


def _add(variable, far):
    variable.assign(variable + far)


class MovedByAFunction(Shifted):
    def later(self):
        move(self, 1.0)


class MovedInAList(Shifted):
    def build(self, shape):
        super().build(shape)
        self.all = [self.shift]

    def later(self):
        for each in self.all:
            each.assign(each + 1.0)


class MovedByName(Shifted):
    def later(self):
        getattr(self, "sh" + "ift").assign([0.0])


class MovedAsAVariable(Shifted):
    def later(self):
        self.variables[-1].assign([0.0])


class InAListOnly(keras.layers.Layer):
    def build(self, shape):
        self.all = [self.add_weight(shape=(1,), initializer="ones", trainable=False)]

    def call(self, inputs):
        return inputs + self.all[0]
