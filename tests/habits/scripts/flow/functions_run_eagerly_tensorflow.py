"""`tf.config.run_functions_eagerly(True)` to debug a step of one's own, switched off after two fits, and on again."""

import keras
import numpy as np
import tensorflow as tf

from tests.habits.data import regression

BACKENDS = ("tensorflow",)


class Watched(keras.Model):
    def train_step(self, data):
        ways.append("eager" if tf.executing_eagerly() else "graph")
        return super().train_step(data)


x, y = regression(rows=40)
inputs = keras.Input((6,))
model = Watched(inputs, keras.layers.Dense(1)(keras.layers.Dense(4, "relu")(inputs)))
model.compile("sgd", "mse")
ways, found, losses = [], [], []
for eagerly in (True, True, False, True):
    tf.config.run_functions_eagerly(eagerly)
    losses += model.fit(x, y, batch_size=16, epochs=2, verbose=0).history["loss"]
    found.append(ways == ["eager"] * 6 if eagerly else "eager" not in ways)
    ways.clear()
tf.config.run_functions_eagerly(False)
result = {"model": model, "losses": losses, "found": np.array(found, "float32")}
