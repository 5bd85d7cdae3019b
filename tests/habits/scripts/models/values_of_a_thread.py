"""A layer that reads values of the thread in which the script runs."""

import contextvars
import threading

import keras

from tests.habits.data import regression

values, factor = threading.local(), contextvars.ContextVar("factor", default=1.0)
bias, unset = contextvars.ContextVar("bias", default=0.1), contextvars.ContextVar("unset")
values.scale = 0.5
factor.set(0.7)


class Scaled(keras.layers.Dense):
    def call(self, inputs):
        return getattr(values, "scale", 1.0) * factor.get() * super().call(inputs) + bias.get() * unset.get(0.5)


x, y = regression()
result = {}
for eager in (False, True):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), Scaled(8, activation="tanh"), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=eager)
    result[f"history {eager}"] = model.fit(x, y, epochs=2, batch_size=23, verbose=0)
    if keras.backend.backend() == "torch":  # elsewhere the step keeps the value of its trace
        factor.set(0.9)
        token = unset.set(0.8)
        result[f"later {eager}"] = model.fit(x, y, epochs=1, batch_size=23, verbose=0)
        unset.reset(token)
        result[f"reset {eager}"] = model.fit(x, y, epochs=1, batch_size=23, verbose=0)
    result[f"weights {eager}"] = model.get_weights()
