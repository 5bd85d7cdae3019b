"""A callback that reads `model.losses` after each batch of an eager fit, and the weights' part of them."""

BACKENDS = ("tensorflow",)

import keras
from keras import ops

from tests.habits.data import regression


class Penalty(keras.layers.Layer):
    def call(self, inputs):
        self.add_loss(ops.mean(ops.square(inputs)))
        return inputs


class Reader(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.append([float(loss) for loss in self.model.losses])


x, y = regression()
seen = []
model = keras.Sequential([keras.Input((6,)), Penalty(), keras.layers.Dense(1, kernel_regularizer="l2")])
model.compile("sgd", "mse", run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0, callbacks=[Reader()])
result = {"history": history, "model": model, "seen": seen}
