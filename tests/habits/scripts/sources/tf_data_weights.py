"""A `tf.data` data set with sample weights, some of them 0."""

NEEDS = ("tensorflow",)

import keras
import numpy as np
import tensorflow as tf

from tests.habits.data import regression

x, y = regression()
weight = (np.arange(46) % 3).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, y, weight)).batch(16)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", weighted_metrics=["mae"])
history = model.fit(data, epochs=2, verbose=0)
result = {"model": model, "history": history}
