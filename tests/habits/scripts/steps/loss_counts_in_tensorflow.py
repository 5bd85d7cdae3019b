"""A loss function that counts its calls in a global `tf.Variable`."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "refused: the step changes a tf.Variable"}

import keras
import tensorflow as tf

from tests.habits.data import regression

calls = tf.Variable(0.0, trainable=False)


def loss(y_true, y_pred):
    calls.assign_add(1.0)
    return keras.losses.mean_squared_error(y_true, y_pred) * tf.minimum(1.0, calls / 8)


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), loss)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model, "calls": calls.numpy()}
