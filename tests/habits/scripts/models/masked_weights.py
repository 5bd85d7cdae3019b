"""A masked sequence whose steps have weights, some batches none, with weighted metrics."""

import keras
import numpy as np

from tests.habits.data import tokens

ids, _ = tokens()
weights = (ids > 5).astype("float32")
weights[:9] = 0
model = keras.Sequential([keras.layers.Embedding(20, 6, mask_zero=True), keras.layers.Dense(20)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"], weighted_metrics=["accuracy"])
following = np.roll(ids, -1, axis=1)
history = model.fit(ids, following, sample_weight=weights, batch_size=8, epochs=2, shuffle=False, verbose=0)
seen = model.evaluate(ids, following, sample_weight=weights, batch_size=7, verbose=0)
result = {"model": model, "history": history, "seen": seen, "weights": weights}
