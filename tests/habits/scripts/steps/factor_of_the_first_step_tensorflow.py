"""A `train_step` of a built model that sets another factor for the next step: a graph of plain Keras keeps the first one."""

BACKENDS = ("tensorflow",)

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class First(Stepping):
    def __init__(self):
        super().__init__()
        self.factor = 3.0

    def train_step(self, data):
        factor, self.factor = self.factor, 1.0
        loss, gradients = self.gradients(lambda: factor * self.squares(*data))
        self.apply(self.optimizer, gradients)
        return {"loss": loss}


x, y = regression(rows=64)
model = First()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05))
model.optimizer.build(model.trainable_weights)
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
