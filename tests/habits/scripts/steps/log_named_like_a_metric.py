"""An own `test_step` returns a sum over rows named "loss", and one that a metric of the same step gets."""

BACKENDS = ("tensorflow", "torch")  # with plain Keras on JAX, an own test_step must be stateless

import keras
from keras import layers, ops

from tests.habits.data import regression


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(1)
        self.squares = keras.metrics.Mean(name="squares")

    def call(self, inputs):
        return self.dense(inputs)

    def test_step(self, data):
        x, y = data
        errors = y - self(x)
        squares = ops.sum(ops.square(errors))
        self.squares.update_state(squares)
        return {"loss": ops.sum(ops.abs(errors)), "total": squares, "squares": self.squares.result()}


x, y = regression(rows=48)
model = Model()
model.compile(keras.optimizers.SGD(0.02), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, validation_data=(x, y), verbose=0, shuffle=False).history
result = {
    "model": model,
    "histories": [history],
    "evaluate": model.evaluate(x, y, batch_size=12, verbose=0, return_dict=True),
}
