"""A callback sets a Python flag with which a layer relates rows: a graph traced before does not see it."""

EXPECTED = {
    "tensorflow": "announced: unless only Python code has changed: a traced step does not see that",
    "torch": "announced: the rows of a batch are related to one another by Centred",
}

import keras

from tests.habits.data import regression


class Centred(keras.layers.Layer):
    centres = False

    def call(self, x):
        return x - keras.ops.mean(x, axis=0) if self.centres else x


class Switches(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.model.layers[1].centres = epoch >= 4


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((x.shape[1],)), keras.layers.Dense(8), Centred(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=8, epochs=10, shuffle=False, callbacks=[Switches()], verbose=0)
result = {"model": model, "history": history}
