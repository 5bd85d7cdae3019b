"""A layer tracks a metric of its activations."""

BACKENDS = ("tensorflow", "torch")  # plain Keras on JAX cannot trace it

import keras

from tests.habits.data import regression


class Tracked(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.tracker = keras.metrics.Mean(name="activation")

    def call(self, inputs):
        self.tracker.update_state(keras.ops.abs(inputs))
        return inputs


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), Tracked(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history}
