"""A script that sets `model.optimizer` between two fits and does not compile again."""

EXPECTED = {"tensorflow": "announced: has changed without `compile`"}

import keras

from tests.habits.data import regression

x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
first = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
model.optimizer = keras.optimizers.Adam(0.02)
second = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"first": first, "second": second, "model": model.get_weights()}
