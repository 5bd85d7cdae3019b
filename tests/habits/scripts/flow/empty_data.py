"""An empty array: the `ValueError` is caught."""

BACKENDS = ("tensorflow", "torch")  # plain Keras on JAX raises UnboundLocalError
# TensorFlow: plain Keras says nothing, and counts a step.
WITHOUT = {"tensorflow": ["result/caught", "result/model/optimizer/0 iteration"]}

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, verbose=0)
caught = False
try:
    model.fit(x[:0], y[:0], verbose=0)
except (ValueError, StopIteration):
    caught = True
model.fit(x, y, verbose=0)
result = {"caught": caught, "model": model}
