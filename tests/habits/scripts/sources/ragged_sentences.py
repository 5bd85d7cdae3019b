"""Ragged sentences, padded by the pipeline."""

NEEDS = ("tensorflow",)

import keras
import tensorflow as tf

words = tf.ragged.constant([[1, 2, 3], [4], [5, 6], [7, 8, 9, 1]] * 6)
labels = [0.0, 1.0, 1.0, 0.0] * 6
data = tf.data.Dataset.from_tensor_slices((words, labels)).map(lambda a, b: (a, [b])).padded_batch(7)
model = keras.Sequential(
    [keras.layers.Embedding(10, 4, mask_zero=True), keras.layers.GRU(5), keras.layers.Dense(1, "sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
history = model.fit(data, epochs=2, verbose=0)
result = {"model": model, "history": history}
