"""A function of JAX's as a layer, with parameters and state."""

BACKENDS = ("jax",)

import jax
import keras

from tests.habits.data import regression


def apply(params, state, inputs, training):
    return inputs @ params["w"], {"calls": state["calls"] + 1}


def start(rng, inputs):
    return {"w": jax.random.normal(rng, (inputs.shape[-1], 4)) / 3}, {"calls": 0.0}


x, y = regression()
layer = keras.layers.JaxLayer(apply, start, seed=1)
model = keras.Sequential([keras.Input((6,)), layer, keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history}
