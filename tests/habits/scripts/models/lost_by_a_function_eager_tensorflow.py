"""Layers under `tf.function` that make weights, count and add a loss, in a model that runs eagerly."""

BACKENDS = ("tensorflow",)
EXPECTED = {
    "tensorflow": "announced: weights that it made there do not train, and the state that it sets stays, and the losses"
}

import keras
import tensorflow as tf

from tests.habits.data import regression


class Lazy(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(4, "tanh")

    def build(self, shape):
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

    @tf.function
    def call(self, x):
        self.count.assign_add(1.0)
        self.add_loss(0.1 * tf.reduce_mean(x**2))
        return self.hidden(x)


class Nested(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(4, "tanh")

    @tf.function
    def call(self, x, training=False):
        return self.hidden(x)


class Outer(keras.Model):
    def __init__(self):
        super().__init__()
        self.nested, self.last = Nested(), keras.layers.Dense(1)

    def call(self, x, training=False):
        return self.last(self.nested(x, training=training))


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), Lazy(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
outer = Outer()
outer.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
outer.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history, "outer": outer}
