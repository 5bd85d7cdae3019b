"""A layer relates the rows of a batch, and is called only for batches of several rows."""

import keras

from tests.habits.data import regression

EXPECTED = {
    "tensorflow": "announced: the rows of a batch are related to one another by Center",
    "torch": "announced: the rows of a batch are related to one another by Center",
}


class Center(keras.layers.Layer):
    def call(self, x):
        return x - keras.ops.mean(x, 0)


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense, self.center, self.out = keras.layers.Dense(4), Center(), keras.layers.Dense(1)

    def call(self, x):
        x = self.dense(x)
        return self.out(self.center(x) if x.shape[0] > 1 else x)


x, y = regression(rows=27)
model = Net()
model.compile("sgd", "mse", run_eagerly=keras.backend.backend() == "tensorflow")
history = model.fit(x, y, batch_size=8, epochs=2, verbose=0)
result = {"model": model, "history": history}
