"""A callback raises an error of the user's, who catches it and trains on."""

import keras

from tests.habits.data import regression


class Budget(Exception):
    pass


class Spend(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            raise Budget("spent")


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
said = ""
try:
    model.fit(x, y, epochs=5, batch_size=8, callbacks=[Spend()], verbose=0)
except Budget as error:
    said = str(error)
history = model.fit(x, y, epochs=1, batch_size=8, shuffle=False, verbose=0)
result = {"said": said, "model": model, "history": history}
