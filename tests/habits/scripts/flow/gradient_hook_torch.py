"""A hook on the gradient of each weight: on several devices it would see a part of the gradient."""

EXPECTED = {"torch": "refused: has a hook on its gradient"}
BACKENDS = ("torch",)

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
for parameter in model.parameters():
    parameter.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "history": history}
