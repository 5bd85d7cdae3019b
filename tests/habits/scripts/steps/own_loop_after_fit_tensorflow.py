"""A loop of one's own with `GradientTape`, before and after `fit`."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression

x, y = regression(rows=48)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")


def loop():
    for start in range(0, 48, 16):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x[start : start + 16], training=True) - y[start : start + 16]) ** 2)
        model.optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return float(loss)


losses = [loop()]
history = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
losses.append(loop())
again = model.fit(x, y, epochs=1, batch_size=16, verbose=0)
result = {"model": model, "losses": losses, "history": history, "again": again}
