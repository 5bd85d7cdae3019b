"""A block that normalizes batches of several rows only, as in PyTorch code. A device may have one row of the last batch."""

import keras

from tests.habits.data import regression


class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4)
        self.norm = keras.layers.BatchNormalization()

    def build(self, shape):
        self.dense.build(shape)
        self.norm.build((None, 4))

    def call(self, x, training=False):
        x = self.dense(x)
        return self.norm(x, training=training) if x.shape[0] > 1 else x

    def compute_output_shape(self, shape):
        return shape[0], 4


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.out = keras.layers.Dense(1)

    def call(self, x, training=False):
        return self.out(self.block(x, training=training))


x, y = regression(rows=27)
model = Net()
model.compile("sgd", "mse", run_eagerly=keras.backend.backend() == "tensorflow")
history = model.fit(x, y, batch_size=8, epochs=2, verbose=0)
result = {"model": model, "history": history, "predictions": model.predict(x, batch_size=8, verbose=0)}
