"""The number of rows of a batch, which one layer returns and another gets as an argument."""

import keras
from keras import layers, ops

from tests.habits.data import regression


class Counts(layers.Layer):
    def call(self, inputs):
        return inputs * 2, ops.shape(inputs)[0]


class Uses(layers.Layer):
    def call(self, inputs, rows):
        return inputs * (1 + 0.1 * ops.cast(rows, inputs.dtype))


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.begin, self.counts, self.uses, self.end = layers.Dense(4), Counts(), Uses(), layers.Dense(1)

    def call(self, inputs):
        features, rows = self.counts(self.begin(inputs))
        return self.end(self.uses(features, rows=rows))


x, y = regression(rows=50)
model = Model()
model.compile(keras.optimizers.SGD(0.005), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history], "predict": model.predict(x, batch_size=9, verbose=0)}
