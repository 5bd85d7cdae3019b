"""A forward hook of PyTorch's, set between two fits and taken away again."""

BACKENDS = ("torch",)

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
hook = model.layers[0].register_forward_hook(lambda module, inputs, output: output * 0.5)
model.fit(x, y, epochs=1, batch_size=16, verbose=0)
hook.remove()
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "history": history}
