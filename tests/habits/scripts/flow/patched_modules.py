"""Functions of Keras's modules swapped and kept under other names, a `partialmethod`, and patches taken back between fits."""

import functools

import keras
from keras import activations, layers, losses, ops

from tests.habits.data import regression

x, y = regression(rows=44)


class Bent(layers.Layer):
    def call(self, inputs):
        return activations.gelu(inputs)


def loss(y_true, y_pred):
    return 2.0 * losses.plain_mse(y_true, y_pred)


def trained():
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4), Bent(), layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), loss)
    return model, model.fit(x, y, batch_size=16, epochs=2, verbose=0).history


def scaled(layer, inputs, training=None, by=1.0):
    return plain_dense(layer, inputs) * by


def shifted(layer, *args, **kwargs):
    outputs = plain_layer(layer, *args, **kwargs)
    return outputs + 0.1 * ops.cast(isinstance(layer, Bent), "float32")


plain_gelu, plain_dense, plain_layer = activations.gelu, layers.Dense.call, layers.Layer.__call__
losses.plain_mse = losses.mean_squared_error
found = []
try:
    activations.gelu = functools.partial(activations.relu, negative_slope=0.5)
    found.append(trained())
    activations.gelu = activations.relu
    layers.Dense.call = functools.partialmethod(scaled, by=1.5)
    found.append(trained())
    layers.Dense.call = plain_dense
    layers.Layer.__call__ = shifted
    found.append(trained())
    layers.Layer.__call__ = plain_layer
    activations.gelu = plain_gelu
    found.append(trained())
finally:
    activations.gelu, layers.Dense.call, layers.Layer.__call__ = plain_gelu, plain_dense, plain_layer
    del losses.plain_mse
result = {"models": [each[0] for each in found], "histories": [each[1] for each in found]}
