"""Texts through `TextVectorization` in the pipeline."""

NEEDS = ("tensorflow",)

import keras
import tensorflow as tf

texts = ["the cat sat", "a dog ran far", "the dog sat", "cats and dogs"] * 6
labels = [0.0, 1.0, 1.0, 0.0] * 6
vectorize = keras.layers.TextVectorization(output_sequence_length=5)
vectorize.adapt(texts)
data = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(7).map(lambda a, b: (vectorize(a), b[:, None]))
model = keras.Sequential(
    [keras.layers.Embedding(20, 4), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1, "sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["AUC"])
history = model.fit(data, epochs=2, verbose=0)
result = {"model": model, "history": history}
