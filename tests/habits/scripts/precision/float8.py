"""Training in float8: scales are written from gradients."""

EXPECTED = {
    "tensorflow": "refused: whose gradients are their new values",
    "torch": "refused: whose gradients are their new values",
}

import keras
from keras import layers

from tests.habits.data import regression

x, y = regression(rows=46)
model = keras.Sequential([keras.Input((6,)), layers.Dense(8, "tanh"), layers.Dense(1)])
model.quantize("float8")
model.compile(keras.optimizers.SGD(0.01), "mse")
history = model.fit(x, y, batch_size=12, epochs=2, verbose=0, shuffle=False)
result = {"model": model, "history": history, "predictions": model.predict(x, verbose=0)}
