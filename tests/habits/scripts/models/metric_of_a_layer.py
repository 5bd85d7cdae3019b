"""A layer gives a metric of its own the standard deviation of each unit over the rows."""

BACKENDS = ("tensorflow", "torch")  # with plain Keras on JAX, a layer cannot update a metric

import keras
from keras import layers, ops

from tests.habits.data import regression


class Noted(layers.Layer):
    def __init__(self):
        super().__init__()
        self.deviation = keras.metrics.Mean(name="deviation")

    def call(self, inputs):
        self.deviation.update_state(ops.std(inputs, axis=0))
        return inputs


x, y = regression(rows=50)
model = keras.Sequential([keras.Input((6,)), layers.Dense(4, "tanh"), Noted(), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.02), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
