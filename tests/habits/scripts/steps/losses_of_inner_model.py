"""A wrapper whose own `train_step` adds the losses of its inner model, and calls it a second time."""

BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Penalty(keras.layers.Layer):
    def call(self, inputs):
        self.add_loss(0.5 * ops.mean(ops.square(inputs)))
        return inputs


class Wrapper(Stepping):
    def train_step(self, data):
        x, y = data

        def loss_of():
            loss = self.squares(x, y) + sum(self.body.losses)
            reverse = ops.mean(ops.square(self(-x) + y))  # a new call: its losses replace those of the first
            return loss + reverse + 0.1 * ops.exp(sum(self.losses))

        loss, gradients = self.gradients(loss_of)
        self.apply(self.optimizer, gradients)
        return {"loss": loss}


x, y = regression()
model = Wrapper(Penalty())
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model}
