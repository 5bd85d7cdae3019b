"""`class_weight`, with `sample_weight` in another fit."""

import keras
import numpy as np

from tests.habits.data import classification

x, y = classification()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"], weighted_metrics=["sparse_categorical_crossentropy"])
first = model.fit(x, y, epochs=2, batch_size=16, class_weight={0: 1.0, 1: 5.0, 2: 0.2}, verbose=0)
second = model.fit(x, y, batch_size=16, sample_weight=np.linspace(0, 2, 46), verbose=0)
result = {"model": model, "first": first, "second": second}
