"""A callback freezes a layer after the first epoch; nothing is compiled anew, so it counts from the next fit on."""

import keras

from tests.habits.data import regression


class Freeze(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.layers[0].trainable = False


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
first = model.fit(x, y, epochs=1, batch_size=8, callbacks=[Freeze()], verbose=0)
model.compile("sgd", "mse")
second = model.fit(x, y, epochs=2, batch_size=8, verbose=0)
result = {"model": model, "first": first, "second": second, "trainable": len(model.trainable_weights)}
