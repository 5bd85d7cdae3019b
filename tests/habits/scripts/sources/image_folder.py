"""Photographs in a folder for each class, through `image_dataset_from_directory`."""

NEEDS = ("tensorflow", "PIL")

import os

import keras
import numpy as np
from PIL import Image

from tests.habits.data import images

pixels, labels = images(size=10)
for number, (image, label) in enumerate(zip(pixels, labels, strict=True)):
    os.makedirs(f"photos/{label}", exist_ok=True)
    Image.fromarray((image[:, :, 0] * 255).astype(np.uint8)).save(f"photos/{label}/{number}.png")
data = keras.utils.image_dataset_from_directory(
    "photos", image_size=(8, 8), batch_size=8, color_mode="grayscale", seed=1, verbose=False
)
model = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3, "softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(data, epochs=2, verbose=0)
result = {"model": model, "history": history}
