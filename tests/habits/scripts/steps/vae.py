"""A variational autoencoder whose sampling layer adds the KL term."""

EXPECTED = {"tensorflow": "announced: draws", "torch": "announced: draws"}

import keras
from keras import ops

from tests.habits.data import images


class Sampling(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(7)

    def call(self, inputs):
        mean, log_var = inputs
        self.add_loss(-0.5 * ops.mean(1 + log_var - ops.square(mean) - ops.exp(log_var)))
        return mean + ops.exp(0.5 * log_var) * keras.random.normal(ops.shape(mean), seed=self.seed_generator)


x, _ = images()
inputs = keras.Input((8, 8, 1))
hidden = keras.layers.Dense(8, "relu")(keras.layers.Flatten()(inputs))
code = Sampling()([keras.layers.Dense(2)(hidden), keras.layers.Dense(2)(hidden)])
outputs = keras.layers.Reshape((8, 8, 1))(keras.layers.Dense(64, "sigmoid")(code))
model = keras.Model(inputs, outputs)
model.compile("adam", "mse")
history = model.fit(x, x, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history}
