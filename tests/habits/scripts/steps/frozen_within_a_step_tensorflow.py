"""A `train_step` that freezes a layer for its second optimizer step, and thaws it afterwards, beside a counter in a dict."""

BACKENDS = ("tensorflow",)

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Alternating(Stepping):
    def __init__(self):
        super().__init__()
        self.phase = {"number": 1}

    def train_step(self, data):
        loss, gradients = self.gradients(lambda: self.squares(*data))
        self.phase["number"] = 2
        self.body.layers[0].trainable = False
        self.optimizer.apply(gradients, self.body.trainable_weights + self.body.layers[0].weights)
        factor = self.phase["number"]
        second, gradients = self.gradients(lambda: factor * self.squares(*data))
        self.optimizer.apply(gradients, self.trainable_weights)
        self.phase["number"] = 1
        self.body.layers[0].trainable = True
        return {"loss": loss, "second": second}

    def gradients(self, loss_of):
        import tensorflow as tf

        weights = self.body.layers[1].weights + (self.body.layers[0].weights if self.phase["number"] == 1 else [])
        with tf.GradientTape() as tape:
            loss = loss_of()
        return self.phase["number"] * loss, tape.gradient(loss, weights)


x, y = regression(rows=64)
model = Alternating()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05))
model.optimizer.build(model.trainable_weights)
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
