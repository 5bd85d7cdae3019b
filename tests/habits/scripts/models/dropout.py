"""Dropout, as nearly every blog post has it."""

EXPECTED = {"tensorflow": "announced: draws", "torch": "announced: draws"}

import keras

from tests.habits.data import classification

x, y = classification()
model = keras.Sequential([keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.3), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
