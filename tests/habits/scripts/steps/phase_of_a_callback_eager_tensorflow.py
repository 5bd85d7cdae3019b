"""With `run_eagerly`, a `train_step` that sets an attribute for a part of itself once a callback asks for it."""

BACKENDS = ("tensorflow",)

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Phases(Stepping):
    def __init__(self):
        super().__init__()
        self.factor, self.is_warm = 1.0, False

    def train_step(self, data):
        loss, gradients = self.gradients(lambda: self.factor * self.squares(*data))
        self.factor = 3.0 if self.is_warm else 1.0
        self.apply(self.optimizer, gradients)
        self.factor = 1.0
        return {"loss": loss}


class Warm(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.is_warm = True


x, y = regression(rows=64)
model = Phases()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05), run_eagerly=True)
history = model.fit(x, y, epochs=3, batch_size=16, callbacks=[Warm()], verbose=0)
result = {"model": model, "history": history}
