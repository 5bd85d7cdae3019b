"""Sharpness-aware minimization in a step of one's own: it moves the weights, takes gradients there, and moves them back."""

EXPECTED = {
    "tensorflow": "announced: relates the rows of a batch to one another failed on",
    "torch": "announced: has its own train_step",
}
BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        norm = ops.sqrt(sum(ops.sum(ops.square(gradient)) for gradient in gradients))
        moves = [ops.stop_gradient(0.05 * gradient / norm) for gradient in gradients]
        for weight, move in zip(self.trainable_weights, moves):
            weight.assign(weight + move)
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        for weight, move in zip(self.trainable_weights, moves):
            weight.assign(weight - move)
        self.apply(self.optimizer, gradients)
        return {"loss": loss}


x, y = regression(rows=64)
model = Own()
model(x[:1])
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
