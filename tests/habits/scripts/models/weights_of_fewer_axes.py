"""A weight for each row, and a loss with several numbers in each: Keras multiplies the last axis of those by the weights."""

import keras
import numpy as np

from tests.habits.data import images

x, y = images()
weights = np.linspace(0, 1, len(x)).astype("float32")
model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3, padding="same")])
seen = []
for loss in (keras.losses.CosineSimilarity(axis=1), keras.losses.CosineSimilarity(axis=1, reduction="sum")):
    narrow = keras.Sequential([model, keras.layers.Dense(1)])
    narrow.compile(keras.optimizers.SGD(0.1), loss)
    seen += narrow.fit(x, x, batch_size=7, sample_weight=weights, shuffle=False, verbose=0).history["loss"]
said = ""
model.compile("sgd", "mse")
try:  # the shards of 2 devices have as many rows as there are columns
    model.fit(x[:16], np.repeat(x[:16], 2, axis=-1), batch_size=16, sample_weight=weights[:16], verbose=0)
except Exception:
    said = "these shapes do not fit"
result = {"model": model, "seen": seen, "said": said}
