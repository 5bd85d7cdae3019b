"""A generator whose batches depend on what a callback does after every batch (hard examples first)."""

# TensorFlow: Keras itself reads generators ahead.
BACKENDS = ("jax", "torch")

import keras

from tests.habits.data import regression

x, y = regression()
scale = [1.0]


def batches():
    for epoch in range(3):
        for start in range(0, 40, 8):
            yield x[start : start + 8] * scale[0], y[start : start + 8]


class Adapt(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        scale[0] += 0.1 * float(logs["loss"])


model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(batches(), steps_per_epoch=5, epochs=3, callbacks=[Adapt()], verbose=0)
result = {"model": model, "history": history}
