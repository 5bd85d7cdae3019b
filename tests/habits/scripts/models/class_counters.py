"""A layer counts its calls in an attribute of its class, and a loss in its class and in a list there; both compute by them."""

# In a graph of TensorFlow such code runs only while it is traced.
BACKENDS = ("jax", "torch")

import keras
from keras import ops

from tests.habits.data import regression


class Fade(keras.layers.Layer):
    calls = 0

    def call(self, x):
        Fade.calls += 1
        return x * (1.0 + 0.1 * Fade.calls)


class Loss(keras.losses.Loss):
    seen = []
    count = 0

    def call(self, y, p):
        type(self).count += 1
        self.seen.append(1)
        return ops.mean(ops.square(y - p), axis=-1) * (1 + 0.1 * type(self).count + 0.05 * len(self.seen))


x, y = regression(rows=62)
model = keras.Sequential([keras.Input((x.shape[1],)), keras.layers.Dense(6, "tanh"), Fade(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), Loss())
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history, "calls": [Fade.calls, Loss.count, len(Loss.seen)]}
