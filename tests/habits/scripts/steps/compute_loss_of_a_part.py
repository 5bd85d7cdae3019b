"""`compute_loss` of one's own adds the losses of one part of the model only; another part has a regularizer."""

import keras
from keras import ops

from tests.habits.data import regression


class Penalty(keras.layers.Layer):
    def call(self, inputs):
        self.add_loss(0.5 * ops.mean(ops.square(inputs)))
        return inputs


class Parts(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([keras.layers.Dense(4, "tanh", bias_regularizer="l2"), Penalty()])
        self.head = keras.layers.Dense(1, kernel_regularizer=keras.regularizers.L2(1.0))

    def call(self, x):
        return self.head(self.encoder(x))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.square(y - y_pred)) + sum(self.encoder.losses)


x, y = regression()
model = Parts()
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model}
