"""A callback anneals a global number that the loss function reads (the weight of a KL term, say)."""

import keras

from tests.habits.data import regression

beta = 0.0


def loss(y_true, y_pred):
    return keras.ops.square(y_true - y_pred) + beta * keras.ops.abs(y_pred)


class Anneal(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        global beta
        beta = 0.5 * epoch


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile("sgd", loss, run_eagerly=keras.backend.backend() != "jax")
history = model.fit(x, y, epochs=3, batch_size=16, callbacks=[Anneal()], verbose=0)
result = {"model": model, "history": history}
