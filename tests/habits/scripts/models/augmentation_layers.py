"""Augmentation by layers of the model: flips, rotations, noise."""

EXPECTED = {"tensorflow": "announced: draws", "torch": "announced: draws"}

import keras
from keras import layers

from tests.habits.data import images

x, y = images()
model = keras.Sequential([layers.RandomFlip(), layers.RandomRotation(0.1), layers.GaussianNoise(0.1)])
model.add(layers.Flatten())
model.add(layers.Dense(3, "softmax"))
model.compile("sgd", "sparse_categorical_crossentropy")
history = model.fit(x, y, epochs=1, batch_size=10, verbose=0)
result = {"model": model, "history": history}
