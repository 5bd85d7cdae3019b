"""A callback that changes the arrays of training data after each batch."""

import keras

from tests.habits.data import regression


class Fade(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        x[:] *= 0.9


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, callbacks=[Fade()], verbose=0)
result = {"model": model, "history": history}
