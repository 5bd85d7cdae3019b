"""A layer that relates rows from the second training on: the script changes it, and compiles the model again."""

import keras
from keras import ops

from tests.habits.data import regression

EXPECTED = {"tensorflow": "announced: related to one another", "torch": "announced: related to one another"}


class Centered(keras.layers.Layer):
    on = False

    def call(self, inputs):
        return inputs - ops.mean(inputs, axis=0, keepdims=True) if self.on else inputs


x, y = regression(rows=50)
centered = Centered()
model = keras.Sequential([keras.Input((6,)), centered, keras.layers.Dense(1)])
histories = []
for centered.on in (False, True):
    model.compile(keras.optimizers.SGD(0.1), "mse")
    histories.append(model.fit(x, y, batch_size=16, epochs=2, verbose=0, validation_split=0.2).history)
result = {"model": model, "histories": histories}
