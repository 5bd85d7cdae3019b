"""A `train_step` that sets an attribute before it calls the optimizer, and puts it back afterwards."""

BACKENDS = ("tensorflow",)

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Phases(Stepping):
    factor = 1.0

    def squares(self, x, y):
        return self.factor * super().squares(x, y)

    def train_step(self, data):
        loss, gradients = self.gradients(lambda: self.squares(*data))
        self.factor = 3.0
        self.apply(self.optimizer, gradients)
        more = self.squares(*data)
        self.factor = 1.0
        return {"loss": loss, "more": more}


x, y = regression(rows=64)
model = Phases()
model(x[:1])
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
