"""A layer in pure bfloat16 among others in float32."""

import keras

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, "relu", dtype="bfloat16"), keras.layers.Dense(1, dtype="float32")])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = history
TOLERANCE = 5e-2  # bfloat16 keeps 8 bits
