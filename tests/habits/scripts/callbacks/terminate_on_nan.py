"""TerminateOnNaN ends a training that has diverged."""

import keras
import numpy as np

from tests.habits.data import regression

x, y = regression()
y[20] = np.nan
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(
    x, y, epochs=3, batch_size=8, shuffle=False, verbose=0, callbacks=[keras.callbacks.TerminateOnNaN()]
)
result = {"epochs": len(history.history["loss"]), "steps": model.optimizer.iterations}
