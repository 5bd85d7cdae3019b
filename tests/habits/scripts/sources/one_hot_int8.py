"""Inputs of 8-bit integers and booleans, targets in one-hot form."""

import keras
import numpy as np

from tests.habits.data import images

x, y = images()
pixels = (x * 255).astype("uint8")
model = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3, "softmax")])
model.compile(
    "adam",
    keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
    metrics=["accuracy", keras.metrics.TopKCategoricalAccuracy(2)],
)
history = model.fit(pixels, keras.utils.to_categorical(y, 3).astype(bool), epochs=2, batch_size=8, verbose=0)
result = {"model": model, "history": history, "predict": model.predict(np.zeros((2, 8, 8, 1), "uint8"), verbose=0)}
