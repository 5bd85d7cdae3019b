"""A layer that relates rows only from some epoch on, switched on by a callback; on TensorFlow the traced step goes on."""

import keras
from keras import ops

from tests.habits.data import regression

EXPECTED = {"torch": "announced: related to one another"}


class Centered(keras.layers.Layer):
    on = False

    def call(self, inputs):
        return inputs - ops.mean(inputs, axis=0, keepdims=True) if self.on else inputs


class SwitchOn(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        centered.on = epoch == 1


x, y = regression(rows=50)
centered = Centered()
model = keras.Sequential([keras.Input((6,)), centered, keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, batch_size=16, epochs=3, verbose=0, callbacks=[SwitchOn()]).history
result = {"model": model, "histories": [history]}
