"""A `train_step` damps its gradients where the loss, read as an array of NumPy, is large."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "announced: reads values of tensors in Python"}

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Damped(Stepping):
    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        if keras.ops.convert_to_numpy(loss).mean() > 0.5:
            gradients = [gradient / 4 for gradient in gradients]
        self.apply(self.optimizer, gradients)
        return {"loss": loss}


x, y = regression(rows=64)
model = Damped()
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
