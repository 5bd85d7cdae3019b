"""One array of targets for the first of two outputs: a batch of as many rows as outputs would give each output one row."""

import keras

from tests.habits.data import regression

x, y = regression(rows=48)
inputs = keras.Input((6,))
features = keras.layers.Dense(2)(inputs)
model = keras.Model(inputs, [keras.layers.Dense(1)(features), features])
model.compile(keras.optimizers.SGD(0.1), ["mse", None])
histories = [model.fit(x, y, batch_size=size, epochs=2, verbose=0).history for size in (8, 4, 16)]
result = {"model": model, "histories": histories, "evaluated": model.evaluate(x, y, batch_size=8, verbose=0)}
