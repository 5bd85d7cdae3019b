"""A `tf.SparseTensor`."""

BACKENDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
counts = rng.poisson(0.4, (40, 12)).astype("float32")
y = rng.normal(size=(40, 1)).astype("float32")
model = keras.Sequential([keras.Input((12,), sparse=True), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((tf.sparse.from_dense(counts), y)).batch(10)
history = model.fit(data, epochs=2, verbose=0)
result = {"model": model, "history": history}
