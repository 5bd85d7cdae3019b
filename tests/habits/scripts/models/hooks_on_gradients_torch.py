"""A backward hook on a layer divides the gradients of a batch by their norm."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "refused: changes gradients by those of other rows"}

import keras
from keras import layers

from tests.habits.data import regression

x, y = regression()
hidden = layers.Dense(4, "tanh")
model = keras.Sequential([keras.Input((6,)), layers.Dense(5), hidden, layers.Dense(1)])
hidden.register_full_backward_hook(lambda module, inputs, outputs: tuple(each / each.norm() for each in inputs))
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
result = {"model": model, "history": history}
