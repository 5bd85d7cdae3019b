"""BackupAndRestore goes on where an interrupted training was."""

import keras

from tests.habits.data import regression


class Interrupt(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt("power cut")


def make():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


x, y = regression()
model = make()
try:
    model.fit(x, y, epochs=4, verbose=0, callbacks=[keras.callbacks.BackupAndRestore("backup"), Interrupt()])
except KeyboardInterrupt as error:
    print(error)
model = make()
history = model.fit(x, y, epochs=4, verbose=0, shuffle=False, callbacks=[keras.callbacks.BackupAndRestore("backup")])
result = {"model": model, "history": history}
