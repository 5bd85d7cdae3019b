"""A grain data set."""

NEEDS = ("grain",)
# Keras on TensorFlow counts the step that finds no batch as an iteration.
WITHOUT = {"tensorflow": ["result/model/optimizer/0 iteration"]}

import grain
import keras

from tests.habits.data import regression

x, y = regression()
data = grain.MapDataset.source(list(zip(x, y, strict=True))).shuffle(seed=1).batch(8)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(data, epochs=1, verbose=0)
result = {"model": model, "history": history}
