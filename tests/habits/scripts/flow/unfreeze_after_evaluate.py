"""A model is evaluated with a frozen layer, which then trains: the optimizer is not built before `fit`."""

BACKENDS = ("tensorflow",)  # on JAX and PyTorch, plain Keras builds the optimizer in `evaluate`

import keras
from keras import layers

from tests.habits.data import regression

x, y = regression(rows=40)
first = layers.Dense(4, "tanh")
model = keras.Sequential([keras.Input((6,)), first, layers.Dense(1)])
first.trainable = False
model.compile("adam", "mse")
score = model.evaluate(x, y, verbose=0)
variables = len(model.optimizer.variables)
first.trainable = True
history = model.fit(x, y, epochs=2, batch_size=10, shuffle=False, verbose=0)
result = {"model": model, "history": history, "variables": variables, "score": score}
