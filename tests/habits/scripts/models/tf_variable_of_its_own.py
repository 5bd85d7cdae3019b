"""A layer counts its calls in a `tf.Variable`, and divides by the count."""

EXPECTED = {"tensorflow": "refused: tf.Variable"}
BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression


class Damped(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.count = tf.Variable(0.0, trainable=False)

    def call(self, x, training=False):
        if training:
            self.count.assign_add(1.0)
        return x / (1.0 + self.count)


x, y = regression()
model = keras.Sequential([keras.Input((6,)), Damped(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
