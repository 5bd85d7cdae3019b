"""A wide and deep model for tables: embeddings of categories and numbers, through `FeatureSpace`-like layers."""

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(0)
data = {"city": rng.integers(0, 5, 40), "day": rng.integers(0, 7, 40), "age": rng.uniform(18, 90, (40, 1))}
y = rng.integers(0, 2, (40, 1))
inputs = {"city": keras.Input((), dtype="int32"), "day": keras.Input((), dtype="int32"), "age": keras.Input((1,))}
normal = layers.Normalization()
normal.adapt(data["age"])
wide = layers.CategoryEncoding(7, output_mode="one_hot")(inputs["day"])
deep = layers.concatenate([layers.Embedding(5, 3)(inputs["city"]), normal(inputs["age"])])
model = keras.Model(inputs, layers.Dense(1, "sigmoid")(layers.concatenate([wide, layers.Dense(6, "relu")(deep)])))
model.compile("adam", "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC()])
history = model.fit(data, y, epochs=2, batch_size=9, verbose=0)
result = {"model": model, "history": history}
