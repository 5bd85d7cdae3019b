"""A layer that counts its calls in a variable of the environment."""

BACKENDS = ("jax", "torch")

import os

import keras

from tests.habits.data import regression


class Counting(keras.layers.Layer):
    def call(self, x):
        os.environ["HABIT_CALLS"] = str(int(os.environ.get("HABIT_CALLS", 0)) + 1)
        return x * int(os.environ["HABIT_CALLS"]) / 10


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), Counting(), keras.layers.Dense(1)])
os.environ.pop("HABIT_CALLS", None)
model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model, "calls": int(os.environ.pop("HABIT_CALLS"))}
