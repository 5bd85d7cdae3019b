"""An endless `tf.data` data set with `steps_per_epoch`."""

NEEDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression

data = tf.data.Dataset.from_tensor_slices(regression()).repeat().batch(9)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(data, epochs=3, steps_per_epoch=4, verbose=0)
result = {"model": model, "history": history}
