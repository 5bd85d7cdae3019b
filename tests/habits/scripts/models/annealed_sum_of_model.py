"""A model adds a sum over rows in its own call, by a weight that is 0 until a callback raises it."""

EXPECTED = {"tensorflow": "announced: which adds a loss that is 0", "torch": "announced: which adds a loss that is 0"}

import keras
from keras import ops

from tests.habits.data import regression


class Spreading(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)

    def build(self, input_shape):
        self.beta = self.add_weight(shape=(), initializer="zeros", trainable=False)
        super().build(input_shape)

    def call(self, x):
        hidden = self.hidden(x)
        self.add_loss(self.beta * ops.sum(ops.square(hidden)))
        return self.out(hidden)


x, y = regression(rows=48)
model = Spreading()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05), "mse")
anneal = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: model.beta.assign(0.01 * epoch))
history = model.fit(x, y, epochs=3, batch_size=16, shuffle=False, callbacks=[anneal], verbose=0)
result = {"model": model, "history": history}
