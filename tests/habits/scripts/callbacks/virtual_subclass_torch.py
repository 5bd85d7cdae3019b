"""A callback registers a class as a virtual subclass, which a layer asks for."""

BACKENDS = ("torch",)

import abc

import keras

from tests.habits.data import regression


class Doubled(abc.ABC):
    pass


class Halved(abc.ABC):
    pass


class Gate(keras.layers.Layer):
    def call(self, x):
        return x * (2.0 if isinstance(self, Doubled) else 1.0) * (0.5 if isinstance(self, Halved) else 1.0)


class Register(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            Doubled.register(Gate)


x, y = regression()
Halved.register(Gate)
model = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Dense(4), Gate(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=8, epochs=3, verbose=0, callbacks=[Register()])
result = {"model": model, "history": history, "predict": model.predict(x, verbose=0)}
