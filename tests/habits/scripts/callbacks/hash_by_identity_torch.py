"""Layers and helpers whose class has a `__hash__` of its own are the keys of dicts and sets that layers read."""

BACKENDS = ("torch",)

import weakref

import keras

from tests.habits.data import regression

scales, weak, chosen = {}, weakref.WeakKeyDictionary(), set()


class Scaled(keras.layers.Layer):
    def __hash__(self):
        return id(self)

    def call(self, x):
        return x * scales.get(self, 1.0) * weak.get(self, 1.0) + (self in chosen)


class Change(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        scales[layer] = 2.0 / (1 + epoch)


layer = Scaled()
scales[layer], weak[layer] = 2.0, 0.5
chosen.add(layer)
x, y = regression()
model = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Dense(4), layer, keras.layers.Dense(1)])
model.compile("sgd", "mse")
first = model.fit(x, y, batch_size=8, epochs=3, verbose=0)
second = model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[Change()])
result = {"model": model, "first": first, "second": second, "predict": model.predict(x, verbose=0)}
