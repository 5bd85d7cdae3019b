"""A loss and a metric that work along the axis of rows."""

import keras

from tests.habits.data import regression

x, y = regression(rows=48)
y = keras.ops.convert_to_numpy(keras.ops.concatenate([y, -0.5 * y + 0.1], axis=1))
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(2)])
model.compile("sgd", keras.losses.CosineSimilarity(axis=0), metrics=[keras.metrics.CosineSimilarity(axis=0)])
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
