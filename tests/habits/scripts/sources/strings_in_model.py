"""Texts as input of a model that begins with `TextVectorization`."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf

texts = tf.constant([["the cat sat"], ["a dog ran far"], ["the dog sat"], ["cats and dogs"]] * 6)
labels = np.array([[0.0], [1.0], [1.0], [0.0]] * 6, "float32")
vectorize = keras.layers.TextVectorization(output_sequence_length=5)
vectorize.adapt(texts)
inputs = keras.Input((1,), dtype="string")
hidden = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(20, 4)(vectorize(inputs)))
model = keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(hidden))
model.compile("adam", "binary_crossentropy")
history = model.fit(texts, labels, epochs=2, batch_size=7, verbose=0)
result = {"model": model, "history": history, "predict": model.predict(texts[:3], verbose=0)}
