"""A layer with a helper object that holds running statistics, which Keras does not track and only evaluation reads."""

BACKENDS = ("tensorflow", "torch")  # on JAX, plain Keras changes only variables of the model

import keras
from keras import ops

from tests.habits.data import regression


class RunningMean:
    def __init__(self, width):
        self.mean = keras.Variable(ops.zeros((width,)), trainable=False)

    def update(self, x):
        self.mean.assign(0.5 * self.mean + 0.5 * ops.mean(x, axis=0))


class Centered(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.running = RunningMean(6)

    def call(self, x, training=False):
        if training:
            self.running.update(x)
            return x
        return x - self.running.mean


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), Centered(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0, validation_split=0.25)
result = {
    "history": history,
    "model": model,
    "mean": model.layers[0].running.mean,
    "predict": model.predict(x, verbose=0),
}
