"""A learning rate that is a Python function."""

import keras

from tests.habits.data import regression

x, y = regression(rows=50)
rate = {"now": 0.1}


class Halve(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        rate["now"] /= 2


model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(lambda: rate["now"]), "mse")
histories = [model.fit(x, y, batch_size=16, epochs=2, verbose=0, callbacks=[Halve()]).history for _ in range(2)]
result = {"model": model, "histories": histories}
