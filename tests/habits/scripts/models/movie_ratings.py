"""Embeddings of users and movies whose product contracts over the batch, as in a well-known example of Keras."""

EXPECTED = {"tensorflow": "announced: related to one another", "torch": "announced: related to one another"}

import keras
import numpy as np
from keras import layers, ops


class Recommender(keras.Model):
    def __init__(self):
        super().__init__()
        self.users, self.movies = layers.Embedding(12, 4), layers.Embedding(9, 4)
        self.user_bias, self.movie_bias = layers.Embedding(12, 1), layers.Embedding(9, 1)

    def call(self, inputs):
        user, movie = inputs[:, 0], inputs[:, 1]
        match = ops.tensordot(self.users(user), self.movies(movie), 2)
        return ops.nn.sigmoid(match + self.user_bias(user) + self.movie_bias(movie))


rng = np.random.default_rng(0)
pairs = np.stack([rng.integers(0, 12, 48), rng.integers(0, 9, 48)], axis=1)
model = Recommender()
model.compile(keras.optimizers.Adam(0.01), keras.losses.BinaryCrossentropy())
history = model.fit(pairs, rng.uniform(size=(48, 1)), epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
