"""A wrapper whose own `train_step` trains on the losses of its inner model alone: a mean and a sum over rows."""

BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Distance(keras.layers.Layer):
    def call(self, inputs):
        self.add_loss(ops.mean(ops.square(inputs - 1)))
        return inputs


class Size(keras.layers.Layer):
    def call(self, inputs):
        self.add_loss(0.01 * ops.sum(ops.square(inputs)))
        return inputs


class Wrapper(Stepping):
    def __init__(self, *layers):
        super().__init__(*layers)
        self.size = keras.metrics.Mean(name="size")

    def train_step(self, data):
        def loss_of():
            self(data[0], training=True)
            return sum(self.body.losses)

        loss, gradients = self.gradients(loss_of)
        self.apply(self.optimizer, gradients)
        self.size.update_state(self.body.losses[1])
        return {"loss": loss, "size": self.size.result()}


x, y = regression()
model = Wrapper(Distance(), keras.layers.Dense(4), Size())
model.build((None, 6))
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model}
