"""With `run_eagerly`, a `train_step` takes the list of weights before the model is built: plain Keras finds none."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: before it calls this layer for the first time"}

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Early(Stepping):
    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        self.apply(self.optimizer, gradients)
        return {"loss": loss}


x, y = regression(rows=64)
model = Early()
model.compile(keras.optimizers.SGD(0.3), run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
