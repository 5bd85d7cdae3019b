"""A `train_step` set on one model: a function with a setting bound by its name, under `tf.function`."""

BACKENDS = ("tensorflow",)

import functools

import keras
import tensorflow as tf

from tests.habits.data import regression


def scaled_step(model, data, scale=1.0):
    x, y = data
    with tf.GradientTape() as tape:
        loss = scale * model.compute_loss(y=y, y_pred=model(x, training=True))
    model.optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return {"loss": loss}


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.train_step = tf.function(functools.partial(scaled_step, model, scale=0.25))
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
