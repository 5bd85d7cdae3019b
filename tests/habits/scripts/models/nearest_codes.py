"""Vectors replaced by the nearest of some codes, which are looked up like words, after BatchNormalization."""

import keras
from keras import layers, ops

from tests.habits.data import regression


class Codes(layers.Layer):
    def __init__(self):
        super().__init__()
        self.codes = layers.Embedding(8, 4)
        self.codes.build(None)

    def call(self, inputs):
        far = ops.square(ops.expand_dims(inputs, -2) - ops.convert_to_tensor(self.codes.embeddings))
        found = self.codes(ops.argmin(ops.sum(far, axis=-1), axis=-1))
        self.add_loss(ops.mean(ops.square(found - ops.stop_gradient(inputs))))
        return inputs + ops.stop_gradient(found - inputs)


x, y = regression(rows=64)
model = keras.Sequential(
    [keras.Input((6,)), layers.Dense(4, use_bias=False), layers.BatchNormalization(), Codes(), layers.Dense(1)]
)
model.compile(keras.optimizers.Adam(0.01), "mse")
history = model.fit(x, y, batch_size=16, epochs=3, verbose=0, shuffle=False)
result = {"model": model, "history": history}
