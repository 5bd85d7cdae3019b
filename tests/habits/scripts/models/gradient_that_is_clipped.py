"""A layer that clips the gradient of the whole batch by its norm."""

EXPECTED = {
    "tensorflow": "refused: it changes gradients by those of other rows, as clipping does",
    "torch": "refused: it changes gradients by those of other rows, as clipping does",
}

import keras
from keras import ops

from tests.habits.data import regression


@ops.custom_gradient
def clipped(x):
    def grad(*args, upstream=None):
        upstream = args[0] if upstream is None else upstream
        return upstream / ops.maximum(1.0, 100.0 * ops.sqrt(ops.sum(upstream**2)))

    return x * 1.0, grad


class Clipped(keras.layers.Layer):
    def call(self, x):
        return clipped(x)


x, y = regression(rows=64)
inputs = keras.Input((x.shape[1],))
model = keras.Sequential([inputs, keras.layers.Dense(8, "tanh"), Clipped(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
history = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
result = {"model": model, "history": history}
