"""A fit that is refused, what was wrong with the model undone, and a fit again."""

BACKENDS = ("torch",)

import sys

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, epochs=1, batch_size=16, shuffle=False, verbose=0)
last = model.layers[-1]
if "abreast" in sys.modules:
    last.trainable = False
    last.handle = sys._getframe()
    try:
        model.fit(x, y, epochs=1, batch_size=16, shuffle=False, verbose=0)
        raise SystemExit("a frame was sent")
    except sys.modules["abreast"].AbreastError:
        pass
    del last.handle
    last.trainable = True
history = model.fit(x, y, epochs=1, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
