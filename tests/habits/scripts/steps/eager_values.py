"""With `run_eagerly`, a metric keeps NumPy arrays in a list, and a layer and a loss read values in Python."""

BACKENDS = ("tensorflow", "torch")

import keras
import numpy as np
from keras import ops

from tests.habits.data import regression


class Kept(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="kept")
        self.errors = []
        self.fading = self.add_weight(shape=(), initializer="zeros")

    def update_state(self, y, y_pred, sample_weight=None):
        self.fading.assign(0.9 * self.fading + ops.sum(ops.stop_gradient(y_pred)))
        self.errors.append(np.abs(ops.convert_to_numpy(ops.stop_gradient(y_pred)) - ops.convert_to_numpy(y)))

    def result(self):
        return float(np.sum(np.concatenate(self.errors))) + float(self.fading.numpy()) if self.errors else 0.0

    def reset_state(self):
        self.errors = []
        self.fading.assign(0.0)


class Checked(keras.layers.Layer):
    def call(self, x):
        assert float(ops.convert_to_numpy(ops.stop_gradient(ops.max(ops.abs(x))))) < 1e6
        return x


calls = 0


def loss(y, y_pred):
    global calls
    calls += 1
    error = ops.mean(ops.square(y - y_pred)) + 0.01 * calls
    return error if float(ops.convert_to_numpy(ops.stop_gradient(error))) < 1 else ops.sqrt(error)


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = [keras.layers.Dense(6, "tanh"), Checked(), keras.layers.Dense(1)]

    def call(self, x):
        for layer in self.body:
            x = layer(x)
        return x


x, y = regression(rows=62)
model = Model()
model.compile(keras.optimizers.SGD(0.1), loss, metrics=[Kept()], run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history, "calls": calls}
