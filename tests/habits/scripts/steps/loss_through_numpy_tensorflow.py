"""A loss that calls `tf.numpy_function`, whose Python function keeps a running scale."""

BACKENDS = ("tensorflow",)
EXPECTED = {"tensorflow": "announced: calls Python through tf.py_function or tf.numpy_function"}

import keras
import numpy as np
import tensorflow as tf

from tests.habits.data import regression

state = {"scale": 1.0, "calls": 0}


def running_scale(error):
    state["calls"] += 1
    state["scale"] = 0.9 * state["scale"] + 0.1 * float(error)
    return np.float32(state["scale"])


def loss(y_true, y_pred):
    error = tf.reduce_mean(tf.square(y_true - y_pred))
    scale = tf.numpy_function(running_scale, [tf.stop_gradient(error)], tf.float32)
    scale.set_shape(())
    return error / scale


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=False)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model, "calls": state["calls"]}
