"""The KL term of a variational autoencoder by `add_loss`, without the noise."""

import keras
from keras import ops

from tests.habits.data import images


class Divergence(keras.layers.Layer):
    def call(self, mean, log_var):
        self.add_loss(-0.5 * ops.mean(ops.sum(1 + log_var - ops.square(mean) - ops.exp(log_var), axis=-1)))
        return mean


x, _ = images()
inputs = keras.Input((8, 8, 1))
hidden = keras.layers.Dense(8, "relu")(keras.layers.Flatten()(inputs))
code = Divergence()(keras.layers.Dense(2)(hidden), keras.layers.Dense(2)(hidden))
outputs = keras.layers.Reshape((8, 8, 1))(keras.layers.Dense(64, "sigmoid")(code))
model = keras.Model(inputs, outputs)
model.compile("adam", "mse")
history = model.fit(x, x, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history}
