"""Spectral normalization, group normalization and unit normalization."""

import keras
from keras import layers

from tests.habits.data import images

x, y = images()
model = keras.Sequential([keras.Input((8, 8, 1)), layers.SpectralNormalization(layers.Conv2D(4, 3))])
model.add(layers.GroupNormalization(2))
model.add(layers.Flatten())
model.add(layers.UnitNormalization())
model.add(layers.Dense(3, "softmax"))
model.compile("adam", "sparse_categorical_crossentropy")
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"model": model, "history": history}
