"""`train_on_batch` with a `train_step` of one's own, and no sample weights."""

BACKENDS = ("tensorflow",)  # on PyTorch, `data` are arrays of NumPy

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Model(Stepping):
    def train_step(self, data):
        x, y = data[:2]
        return {"loss": self.descend(x, y, self.optimizer)}


x, y = regression(rows=64)
model = Model()
model.compile(keras.optimizers.SGD(0.05))
losses = [float(model.train_on_batch(x[begin : begin + 16], y[begin : begin + 16])) for begin in range(0, 64, 16)]
result = {"model": model, "losses": losses}
