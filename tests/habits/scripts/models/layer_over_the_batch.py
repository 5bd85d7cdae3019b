"""A layer that appends the standard deviation over the batch, as GANs do against collapse."""

EXPECTED = {"tensorflow": "announced: related to one another", "torch": "announced: related to one another"}

import keras
from keras import ops

from tests.habits.data import regression


class BatchDeviation(keras.layers.Layer):
    def call(self, inputs):
        deviation = ops.std(inputs, axis=0, keepdims=True)
        return ops.concatenate([inputs, ops.broadcast_to(deviation, ops.shape(inputs))], axis=-1)


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), BatchDeviation(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
