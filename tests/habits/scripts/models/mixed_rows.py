"""A layer that mixes each row with another row of the batch at random, as MixUp does."""

import keras

from tests.habits.data import regression


class Mix(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.seeds = keras.random.SeedGenerator(1)

    def call(self, x, training=False):
        return 0.5 * x + 0.5 * keras.random.shuffle(x, axis=0, seed=self.seeds) if training else x


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), Mix(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, epochs=2, batch_size=4, shuffle=False, verbose=0)
result = {"history": history, "model": model}
