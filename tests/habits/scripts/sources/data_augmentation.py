"""Augmentation in the pipeline, with a seed of its own."""

NEEDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import images

x, y = images()


def augment(pixels, label):
    pixels = tf.image.stateless_random_flip_left_right(pixels, seed=(1, 2))
    return tf.image.stateless_random_brightness(pixels, 0.2, seed=(3, 4)), label


data = tf.data.Dataset.from_tensor_slices((x, y)).map(augment).batch(10)
model = keras.Sequential([keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(data, epochs=2, verbose=0)
result = {"model": model, "history": history}
