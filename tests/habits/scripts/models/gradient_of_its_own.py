"""A layer whose own gradient takes the mean over the batch away."""

EXPECTED = {"tensorflow": "announced: its gradients relate rows", "torch": "announced: its gradients relate rows"}

import keras
from keras import ops

from tests.habits.data import regression


@ops.custom_gradient
def centred(x):
    def grad(*args, upstream=None):
        upstream = args[0] if upstream is None else upstream
        return upstream - ops.mean(upstream, axis=0)

    return x * 1.0, grad


class Centred(keras.layers.Layer):
    def call(self, x):
        return centred(x)


x, y = regression(rows=64)
inputs = keras.Input((x.shape[1],))
model = keras.Sequential([inputs, keras.layers.Dense(8, "tanh"), Centred(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
history = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
result = {"model": model, "history": history}
