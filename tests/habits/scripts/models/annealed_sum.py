"""A layer adds a sum over rows, by a weight that is 0 until a callback raises it."""

import keras
from keras import ops

from tests.habits.data import regression


class Spread(keras.layers.Layer):
    def build(self, input_shape):
        self.beta = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x):
        self.add_loss(self.beta * ops.sum(ops.square(x)))
        return x


x, y = regression(rows=48)
spread = Spread()
model = keras.Sequential([keras.Input((x.shape[1],)), keras.layers.Dense(6, "tanh"), spread, keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
anneal = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: spread.beta.assign(0.01 * epoch))
history = model.fit(x, y, epochs=3, batch_size=16, shuffle=False, callbacks=[anneal], verbose=0)
result = {"model": model, "history": history}
