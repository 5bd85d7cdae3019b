"""A functional model multiplies by the transpose of a weight, made once outside of a layer."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "refused: is tied to the weight"}

import keras
from keras import layers, ops

from tests.habits.data import regression

x, y = regression()
inputs = keras.Input((6,))
first = layers.Dense(4, "tanh")
hidden = ops.matmul(first(inputs), ops.transpose(first.kernel))
model = keras.Model(inputs, layers.Dense(1)(hidden))
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
result = {"model": model, "history": history}
