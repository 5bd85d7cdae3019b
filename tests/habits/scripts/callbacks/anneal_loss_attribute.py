"""A callback anneals a number that the loss object holds, and compiles anew at each epoch so that it counts."""

import keras

from tests.habits.data import regression


class Weighted(keras.losses.Loss):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def call(self, y_true, y_pred):
        return self.weight * keras.ops.mean(keras.ops.square(y_true - y_pred), axis=-1)


class Anneal(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.model.loss.weight = 1.0 + epoch


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile("sgd", Weighted(1.0), run_eagerly=keras.backend.backend() != "jax")
history = model.fit(x, y, epochs=3, batch_size=16, callbacks=[Anneal()], verbose=0)
result = {"model": model, "history": history}
