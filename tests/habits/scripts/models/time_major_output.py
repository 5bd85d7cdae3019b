"""A model's outputs: steps of time before rows, steps and rows in one axis, and centers that belong to no row."""

import keras
from keras import ops

from tests.habits.data import regression


class Odd(keras.Model):
    def __init__(self):
        super().__init__()
        self.out = keras.layers.Dense(2)

    def build(self, input_shape):
        self.centers = self.add_weight(shape=(4, 2), initializer="glorot_uniform")
        super().build(input_shape)

    def call(self, x):
        points = self.out(ops.reshape(x, (-1, 3, 2)))
        first = ops.moveaxis(points, 1, 0)
        return {"first": first, "flat": ops.reshape(first, (-1, 2)), "centers": self.centers * 2}


def far(y, y_pred):
    return ops.mean(ops.square(y_pred - 1)) + 0.1 * ops.max(y_pred)


x, _ = regression(rows=46)
model = Odd()
model(x[:1])
model.compile(keras.optimizers.SGD(0.1), {"first": far, "flat": far, "centers": far}, metrics={"flat": [far]})
y = {"first": x, "flat": x, "centers": x}
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
