"""A layer keeps its features in an attribute and in a list, and the model reads them after a BatchNormalization."""

import keras
from keras import ops

from tests.habits.data import regression


class Encoder(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(6, "tanh")
        self.features = None
        self.all = []

    def call(self, x):
        self.features = self.dense(x)
        self.all.clear()
        self.all.append(self.features)
        return self.features


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.norm = keras.layers.BatchNormalization()
        self.out = keras.layers.Dense(1)

    def call(self, x, training=False):
        normal = self.norm(self.encoder(x), training=training)
        return self.out(ops.concatenate([normal, self.encoder.features, self.encoder.all[0] ** 2], axis=-1))


x, y = regression(rows=62)
model = Model()
model.compile(keras.optimizers.SGD(0.1), "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history, "predict": model.predict(x, batch_size=16, verbose=0)}
