"""Gradient accumulation by the optimizer, with clipping."""

import keras

from tests.habits.data import regression

x, y = regression(rows=48)
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01, gradient_accumulation_steps=3, global_clipnorm=0.5), "mse")
history = model.fit(x, y, epochs=3, batch_size=8, verbose=0)
result = {"model": model, "history": history}
