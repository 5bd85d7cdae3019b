"""With `run_eagerly`, an embedding is looked up for as many constants as a device has rows, and Adam squares its gradient."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: looks up numbers in an embedding"}

import keras
from keras import layers, ops

from tests.habits.data import tokens


class Shifted(layers.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.shift = layers.Embedding(20, 6), layers.Embedding(2, 6)

    def call(self, ids):
        return self.words(ids) + ops.sum(self.shift(ops.zeros(8, "int32")), axis=0)


x, y = tokens(rows=64, length=7)
x = x % 20
inputs = keras.Input((7,), dtype="int32")
model = keras.Model(inputs, layers.Dense(1)(layers.GlobalAveragePooling1D()(Shifted()(inputs))))
model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=True)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
result = {"model": model, "history": history}
