"""With `run_eagerly`, a `train_step` and a layer use NumPy for constants, shapes and types, which nothing announces."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Scaled(keras.layers.Layer):
    def call(self, x):
        return keras.ops.cast(x, np.float32) * np.pi / np.prod(x.shape[1:])


class Training(Stepping):
    def __init__(self):
        super().__init__()
        self.scaled = Scaled()

    def call(self, x):
        return super().call(self.scaled(x))

    def train_step(self, data):
        return {"loss": self.descend(*data, self.optimizer)}


x, y = regression(rows=64)
model = Training()
model(x[:1])  # else plain Keras has no weights when the first step reads them
model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
