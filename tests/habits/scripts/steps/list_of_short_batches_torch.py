"""A `train_step` that notes the number of rows of batches that are short."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "announced: short keeps results of the rows in Python"}

import keras

from tests.habits.data import regression

short = []


class Noting(keras.Model):
    def train_step(self, data):
        if len(data[0]) < 10:
            short.append(len(data[0]))
        return super().train_step(data)


x, y = regression(rows=64)
inputs = keras.Input((6,))
model = Noting(inputs, keras.layers.Dense(1)(keras.layers.Dense(4, "tanh")(inputs)))
short.clear()
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model, "short": len(short)}
