"""A step with a mesh of its own on the first device."""

BACKENDS = ("jax",)
EXPECTED = {"jax": "refused: computes on other devices than those of abreast"}

import jax
import keras
import numpy as np

from tests.habits.data import regression


class OnFirst(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",))
        rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
        return self.dense(jax.lax.with_sharding_constraint(x, rows))


x, y = regression(rows=64)
model = OnFirst()
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=16, verbose=0)
result = {"model": model, "history": history}
