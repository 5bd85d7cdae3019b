"""`export` of a trained model, which TensorFlow reads again."""

BACKENDS = ("tensorflow", "jax")
NEEDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression

x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, batch_size=10, verbose=0)
model.export("exported", verbose=False)
loaded = tf.saved_model.load("exported")
served = loaded.serve(tf.constant(x)).numpy()
model.fit(x, y, batch_size=10, shuffle=False, verbose=0)
result = {"served": served, "model": model}
