"""Functions that `keras.remat` wraps once, in `__init__`, and that call layers: a method, a layer, and one in a list."""

BACKENDS = ("jax",)
EXPECTED = {
    "jax": "announced: Block.whole, Block.layer, Block.parts: keras.remat wraps this function once, and it calls Dense,"
}

import keras

from tests.habits.data import regression


class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__(name="block")
        self.hidden, self.other = keras.layers.Dense(6, "tanh"), [keras.layers.Dense(6, "tanh")]
        last = keras.layers.Dense(6)
        self.last = last
        self.whole, self.layer = keras.remat(self.inner), keras.remat(self.other[0])
        self.parts = [keras.remat(lambda x: last(x))]

    def inner(self, x):
        return x + self.hidden(x)

    def call(self, x):
        return self.parts[0](self.layer(self.whole(x)))


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), Block(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
