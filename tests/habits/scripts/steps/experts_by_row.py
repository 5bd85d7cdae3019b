"""A `train_step` of a mixture of experts: in many steps, a device, or all, have no row for an expert."""

BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits import experts
from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Mixture(Stepping):
    def __init__(self):
        super().__init__()
        self.body = experts.model()

    def train_step(self, data):
        return {"loss": self.descend(*data, self.optimizer)}


x, y = regression(rows=72)
model = Mixture()
if keras.backend.backend() == "tensorflow":
    model(x[:1])  # else plain Keras has no weights when the first step reads them
model.compile(keras.optimizers.Adam(0.05), run_eagerly=True)
history = model.fit(x, y, epochs=3, batch_size=6, verbose=0)
result = {"model": model, "history": history}
