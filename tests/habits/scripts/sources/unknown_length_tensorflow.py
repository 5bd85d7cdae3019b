"""A `tf.data` pipeline of unknown length, with Adam and a schedule, which read the number of iterations."""

EXPECTED = {"tensorflow": "announced: plain Keras on TensorFlow adds 1"}
BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression

x, y = regression(rows=64)
data = tf.data.Dataset.from_tensor_slices((x, y)).filter(lambda x, y: x[0] > -9).batch(16)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
rate = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
model.compile(keras.optimizers.Adam(rate), "mse")
history = model.fit(data, epochs=3, verbose=0)
result = {"model": model, "history": history}
