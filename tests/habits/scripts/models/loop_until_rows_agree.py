"""A loop that goes on until all rows of the batch are small."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: `while_loop`) on values of rows"}

import keras
from keras import ops

from tests.habits.data import regression


class Shrinks(keras.layers.Layer):
    def call(self, x):
        return ops.while_loop(lambda v: ops.any(ops.abs(v) > 0.6), lambda v: (v * 0.9,), (x,))[0]


x, y = regression(rows=64)
inputs = keras.Input((x.shape[1],))
model = keras.Sequential([inputs, keras.layers.Dense(8, "tanh"), Shrinks(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
history = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
result = {"model": model, "history": history}
