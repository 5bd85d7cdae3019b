"""A layer with helpers that hand on what they do not have: an object to the one that it wraps, a dict to its items."""

import keras

from tests.habits.data import regression


class Wrapper:
    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Items(dict):
    def __getattr__(self, name):
        return self[name]


class Settings:
    def __init__(self):
        self.scale, self.options = 0.5, Items(shift=1.0)


class Scaled(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.settings = Wrapper(Wrapper(Settings()))

    def call(self, x):
        return x * self.settings.scale + self.settings.options.shift


class Anneal(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        settings = self.model.layers[1].settings
        settings.inner.inner.scale = settings.options["shift"] = 0.25


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), Scaled(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0, callbacks=[Anneal()])
result = {"history": history, "model": model}
