"""A layer that is built only when `compute_loss` calls it: TensorFlow's `fit` makes the optimizer's variables after that."""

BACKENDS = ("tensorflow",)  # plain Keras on the others makes them before

import keras
from keras import layers, ops

from tests.habits.data import regression


class Towers(keras.Model):
    def __init__(self):
        super().__init__()
        self.one, self.other = layers.Dense(4), layers.Dense(4)

    def call(self, inputs):
        return self.one(inputs)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.square(y_pred - self.other(y)))


x, y = regression()
model = Towers()
model.compile(keras.optimizers.Adam(0.01))
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
result = {"model": model, "history": history}
