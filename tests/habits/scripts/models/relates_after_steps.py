"""A layer that begins to relate rows after 50 steps, as a queue of negatives or a moving centre may."""

# Found at the 64th step: the 13 steps before it work on the rows of each device.
EXPECTED = {
    "tensorflow": "announced: after 64 steps, the rows of a batch are related to one another by Centred",
    "torch": "announced: after 64 steps, the rows of a batch are related to one another by Centred",
}

import keras

from tests.habits.data import regression


class Centred(keras.layers.Layer):
    def build(self, shape):
        self.steps = self.add_weight(shape=(), initializer="zeros", trainable=False, dtype="int32")

    def call(self, x, training=False):
        if training:
            self.steps.assign_add(1)
        return keras.ops.where(self.steps > 50, x - keras.ops.mean(x, axis=0), x)


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((x.shape[1],)), keras.layers.Dense(8), Centred(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=8, epochs=10, shuffle=False, verbose=0)
result = {"model": model, "history": history, "predict": model.predict(x, batch_size=8, verbose=0)}
