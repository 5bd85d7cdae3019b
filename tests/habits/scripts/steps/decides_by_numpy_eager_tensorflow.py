"""With `run_eagerly`, a `train_step` damps its gradients where the mean of its errors, computed by NumPy, is large."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: the code of Damped calls np.mean"}

import keras
import numpy as np

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Damped(Stepping):
    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        if self.error(x, y) > 0.5:
            gradients = [gradient / 4 for gradient in gradients]
        self.apply(self.optimizer, gradients)
        return {"loss": loss}

    def error(self, x, y):
        return np.mean(keras.ops.abs(self(x) - y))


x, y = regression(rows=64)
model = Damped()
model(x[:1])  # else plain Keras has no weights when the first step reads them
model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
