"""A layer refers weakly to an object of the script that refers to itself, and a callback drops it."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "announced: refers weakly to a Trainer that refers to itself"}

import gc
import weakref

import keras

from tests.habits.data import regression


class Trainer:
    def __init__(self):
        self.alpha, self.me = 2.0, self


class Scaled(keras.layers.Layer):
    def __init__(self, owner):
        super().__init__()
        self.owner = weakref.ref(owner)

    def call(self, x):
        owner = self.owner()
        return x if owner is None else x * owner.alpha


class Drop(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        owners.clear()
        gc.collect()


owners = [Trainer()]
x, y = regression()
model = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Dense(4), Scaled(owners[0]), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[Drop()])
result = {"model": model, "history": history}
