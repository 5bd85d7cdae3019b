"""Optimizers that a step of its own uses, and that a list, a dict and an object hold."""

BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Settings:
    def __init__(self):
        self.optimizer = keras.optimizers.RMSprop(0.01)


class Own(Stepping):
    def __init__(self):
        super().__init__()
        self.optimizers = [keras.optimizers.Adam(0.05)]
        self.by_name = {"sgd": keras.optimizers.SGD(0.05, momentum=0.9)}
        self.settings = Settings()

    def train_step(self, data):
        x, y = data
        for optimizer in (self.optimizers[0], self.by_name["sgd"], self.settings.optimizer):
            loss = self.descend(x, y, optimizer)
        return {"loss": loss}


x, y = regression(rows=48)
model = Own()
model.compile()
model(x[:1])
for each in (model.optimizers[0], model.by_name["sgd"], model.settings.optimizer):
    each.build(model.trainable_variables)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
