"""Embeddings of positions: of `arange`, of `arange` for each row, of `zeros_like` and of relative distances, with Adam."""

import keras
from keras import layers, ops

from tests.habits.data import tokens


class Positions(layers.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.places = layers.Embedding(20, 6), layers.Embedding(16, 6)
        self.of_rows, self.first = layers.Embedding(16, 6), layers.Embedding(1, 6)

    def call(self, ids):
        length = ops.shape(ids)[1]
        of_rows = ops.broadcast_to(ops.arange(length), ops.shape(ids))
        first = self.first(ops.zeros((ops.shape(ids)[0], 1), "int32"))
        return self.words(ids) + self.places(ops.arange(length)) + self.of_rows(of_rows) + first


class Distances(layers.Layer):
    def __init__(self):
        super().__init__()
        self.biases, self.kinds = layers.Embedding(16, 1), layers.Embedding(4, 6)

    def call(self, inputs):
        places = ops.arange(ops.shape(inputs)[1])
        biases = self.biases(ops.abs(places[None] - places[:, None]))[..., 0]
        return ops.matmul(ops.softmax(biases), inputs) + self.kinds(ops.zeros_like(inputs[..., 0], "int32"))


def made(length):
    model = keras.Sequential([keras.Input((length,), dtype="int32"), Positions(), Distances()])
    model.add(layers.GlobalAveragePooling1D())
    model.add(layers.Dense(1, "sigmoid"))
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
    return model


x, y = tokens(rows=46, length=8)
model, other = made(8), made(None)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
history_of_other = other.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
result = {"model": model, "history": history, "other": other, "history of other": history_of_other}
