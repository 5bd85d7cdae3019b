"""Embeddings in a layer that relates the rows, and in `compute_loss`, as in a model with two towers."""

import keras
import numpy as np
from keras import layers, ops


class Centered(layers.Layer):
    def __init__(self):
        super().__init__()
        self.words = layers.Embedding(20, 6)

    def call(self, ids):
        found = self.words(ids)
        return found - ops.mean(found, axis=0, keepdims=True)


class Towers(keras.Model):
    def __init__(self):
        super().__init__()
        self.users, self.items = Centered(), layers.Embedding(15, 6)
        self.items.build(None)

    def call(self, users):
        return self.users(users)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.square(y["rating"] - ops.sum(y_pred * self.items(y["item"]), axis=-1)))


rng = np.random.default_rng(0)
users, items = rng.integers(0, 20, 46).astype("int32"), rng.integers(0, 15, 46).astype("int32")
ratings = rng.integers(1, 6, 46).astype("float32")
model = Towers()
model.compile(keras.optimizers.Adam(0.01))
history = model.fit(users, {"item": items, "rating": ratings}, batch_size=14, epochs=2, verbose=0, shuffle=False)
result = {"model": model, "history": history}
