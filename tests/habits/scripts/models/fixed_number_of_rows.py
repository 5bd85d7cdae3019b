"""A model for batches of 8 rows: `Input(batch_size=8)`, and a reshape that names them."""

EXPECTED = {"tensorflow": "refused", "torch": "refused"}

import keras
from keras import layers, ops

from tests.habits.data import regression

x, y = regression(rows=48)
inputs = keras.Input((6,), batch_size=8)
hidden = ops.reshape(layers.Dense(4)(inputs), (8, 2, 2))
model = keras.Model(inputs, layers.Dense(1)(layers.Flatten()(hidden)))
model.compile(keras.optimizers.SGD(0.02), "mse")
history = model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
