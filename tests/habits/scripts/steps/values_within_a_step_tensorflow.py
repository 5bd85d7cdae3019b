"""A `train_step` that sets values of every kind for a part of itself: nested, in an array, absent before, a function."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping

FACTORS = {"outer": {"inner": 1.0}}


class Phases(Stepping):
    def __init__(self):
        super().__init__()
        self.array, self.unknown, self.far, self.kept = np.ones(1), None, ops.square, None
        self.was_training = False

    def call(self, x, training=False):
        self.was_training = bool(training)
        return super().call(x, training=training)

    def squares(self, x, y):
        factor = FACTORS["outer"]["inner"] * self.array[0] * getattr(self, "late", 1.0)
        factor *= (1.0 if self.unknown is None else self.unknown) * (1.0 if self.body.layers[0].trainable else 0.5)
        return factor * ops.mean(self.far(self(x, training=True) - y))

    def train_step(self, data):
        if self.kept is None:
            self.kept = ops.convert_to_tensor(1.0)
        first = self.descend(*data, self.optimizer)
        self.set(1.5, ops.abs)
        self.body.layers[0].trainable = False
        self.body.trainable = False
        second = self.squares(*data)
        self.optimizer.apply([0 * weight for weight in self.weights], self.weights)
        third = self.squares(*data)
        self.body.trainable = True
        self.set(1.0, ops.square)
        return {"first": first, "second": second, "third": third}

    def descend(self, x, y, optimizer):
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        self.set(2.0, ops.abs)
        self.apply(optimizer, gradients)
        self.set(1.0, ops.square)
        return loss

    def set(self, value, far):
        FACTORS["outer"]["inner"] = self.array[0] = self.late = self.unknown = value
        self.far = far


x, y = regression(rows=64)
model = Phases()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05))
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
