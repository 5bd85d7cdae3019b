"""A layer has an attribute named as one of Keras's models: it leaves its codes in `history`, and the loss reads them."""

import keras
from keras import layers, ops

from tests.habits.data import regression


class Encoder(layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(3)
        self.history = None

    def call(self, inputs):
        self.history = self.dense(inputs)
        return self.history


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder, self.dense = Encoder(), layers.Dense(1)
        self.weight = 0.1

    def call(self, inputs):
        return self.dense(self.encoder(inputs))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        spread = ops.mean(ops.std(self.encoder.history, axis=0))
        return super().compute_loss(x, y, y_pred, sample_weight, training) + self.weight * spread


x, y = regression(rows=50)
model = Model()
model.compile(keras.optimizers.SGD(0.02), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
