"""A layer refers weakly to an object that only the script holds, and that a callback changes."""

BACKENDS = ("torch",)

import weakref

import keras

from tests.habits.data import regression


class Trainer:
    alpha = 2.0


class Scaled(keras.layers.Layer):
    def __init__(self, owner):
        super().__init__()
        self.owner = weakref.ref(owner)

    def call(self, x):
        return x * self.owner().alpha


class Anneal(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        trainer.alpha = 2.0 / (1 + epoch)


trainer = Trainer()
x, y = regression()
model = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Dense(4), Scaled(trainer), keras.layers.Dense(1)])
model.compile("sgd", "mse")
first = model.fit(x, y, batch_size=8, epochs=3, verbose=0, callbacks=[Anneal()])
trainer.alpha = 0.3
result = {
    "model": model,
    "first": first,
    "second": model.fit(x, y, batch_size=8, verbose=0),
    "predict": model.predict(x, verbose=0),
}
