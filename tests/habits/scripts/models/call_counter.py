"""A layer counts its calls in an integer weight."""

import keras

from tests.habits.data import regression


class Counter(keras.layers.Layer):
    def build(self, shape):
        self.calls = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False, name="calls")

    def call(self, inputs, training=False):
        if training:
            self.calls.assign(self.calls + 1)
        return inputs


x, y = regression()
model = keras.Sequential([keras.Input((6,)), Counter(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history, "calls": model.layers[0].calls}
