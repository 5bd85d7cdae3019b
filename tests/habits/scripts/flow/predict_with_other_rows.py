"""`predict_step` gives two predictions for each row, of the row and of its mirror image (test-time augmentation)."""

EXPECTED = {"tensorflow": "refused: rows of output", "torch": "refused: rows of output"}

import keras
from keras import ops

from tests.habits.data import regression


class Twice(keras.Model):
    def predict_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        return ops.concatenate([self(x), self(-x)], axis=0)


class TwiceOnJax(keras.Model):
    def predict_step(self, state, data):
        x = data[0] if isinstance(data, tuple) else data
        outputs, variables = self.stateless_call(state[0], state[1], ops.concatenate([x, -x]))
        return outputs, variables


x, y = regression(rows=48)
inputs = keras.Input((6,))
kind = TwiceOnJax if keras.backend.backend() == "jax" else Twice
model = kind(inputs, keras.layers.Dense(1)(inputs))
result = {"predictions": model.predict(x, batch_size=16, verbose=0)}
