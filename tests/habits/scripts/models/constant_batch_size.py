"""A model that draws noise for a constant number of rows, the batch size, as in many examples of diffusion models."""

EXPECTED = {
    "tensorflow": "refused: works on a batch of 16 rows and fails on the",
    "torch": "refused: works on a batch of 16 rows and fails on the",
}

import keras
from keras import layers, ops

from tests.habits.data import regression

BATCH_SIZE = 16


class Denoising(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(8, activation="tanh")
        self.head = layers.Dense(1)
        self.seeds = keras.random.SeedGenerator(3)

    def call(self, x):
        noise = keras.random.normal((BATCH_SIZE, 6), seed=self.seeds)
        rates = ops.reshape(ops.linspace(0.0, 1.0, BATCH_SIZE), (BATCH_SIZE, 1))
        return self.head(self.dense(x + 0.1 * rates * noise))


x, y = regression(rows=64)
model = Denoising()
model.compile("adam", "mse")
history = model.fit(x, y, batch_size=BATCH_SIZE, epochs=2, verbose=0)
result = {"model": model, "history": history}
