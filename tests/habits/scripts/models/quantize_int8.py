"""A trained model is quantized to int8, and predicts and evaluates."""

import keras

from tests.habits.data import classification

x, y = classification()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x, y, epochs=2, batch_size=16, verbose=0)
model.quantize("int8")
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
result = {"predict": model.predict(x, verbose=0), "evaluate": model.evaluate(x, y, verbose=0)}
