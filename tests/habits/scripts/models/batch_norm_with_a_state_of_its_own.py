"""A subclass of BatchNormalization with one more running mean, that of the sizes of its inputs."""

import keras
from keras import ops

from tests.habits.data import regression


class Sized(keras.layers.BatchNormalization):
    def build(self, shape):
        super().build(shape)
        self.sizes = self.add_weight(shape=(shape[-1],), initializer="ones", trainable=False, name="sizes")

    def call(self, inputs, training=None, mask=None):
        outputs = super().call(inputs, training=training, mask=mask)
        if not training:
            return outputs / self.sizes
        self.sizes.assign(0.9 * self.sizes + 0.1 * ops.mean(ops.abs(inputs), axis=0))
        return outputs


x, y = regression(rows=46)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, use_bias=False), Sized(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=14, epochs=3, shuffle=False, verbose=0)
result = {"history": history, "model": model, "loss": model.evaluate(x, y, batch_size=10, verbose=0)}
