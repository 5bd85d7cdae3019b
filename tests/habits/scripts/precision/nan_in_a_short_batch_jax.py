"""`jax_debug_nans`, and the logarithm of a negative number in the last batch, which is short: the script catches JAX's error."""

BACKENDS = ("jax",)

import jax
import keras
import numpy as np

from tests.habits.data import regression

x, y = regression(rows=55)
x = np.abs(x) + 0.5
negative = np.copy(x)
negative[50, 2] = -1
model = keras.Sequential([keras.Input((6,)), keras.layers.Lambda(keras.ops.log), keras.layers.Dense(1)])
model.compile("sgd", "mse")
jax.config.update("jax_debug_nans", True)
found = 0
try:
    model.fit(negative, y, batch_size=16, shuffle=False, verbose=0)
except FloatingPointError:
    found = 1
finally:
    jax.config.update("jax_debug_nans", False)
model.set_weights([np.zeros_like(each) for each in model.get_weights()])
history = model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
result = {"found": found, "history": history, "model": model}
