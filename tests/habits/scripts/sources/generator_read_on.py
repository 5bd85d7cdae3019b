"""A generator that `fit` leaves early, and that a second `fit` goes on with."""

# TensorFlow: Keras itself reads generators ahead.
BACKENDS = ("jax", "torch")

import keras

from tests.habits.data import regression


class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training = batch == 2


x, y = regression(rows=80)
batches = ((x[i : i + 8], y[i : i + 8]) for i in range(0, 80, 8))
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(batches, steps_per_epoch=9, callbacks=[Stop()], verbose=0)
rest, _ = next(batches)
result = {"model": model, "rest": rest}
