"""A global function with an `input_signature`, which makes tensors of numbers, and one with a setting bound by its name."""

BACKENDS = ("tensorflow",)

import functools

import keras
import tensorflow as tf

from tests.habits.data import regression


@tf.function(input_signature=[tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1]), tf.TensorSpec([])])
def loss_of(y, y_pred, scale):
    return tf.reduce_mean(tf.cast(scale.shape.rank + 1, scale.dtype) * scale * tf.square(y - y_pred))


@tf.function(reduce_retracing=True)
def learn(model, x, y, scale):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True), scale)
    model.optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


class Helped(keras.Model):
    def train_step(self, data):
        return {"loss": functools.partial(learn, self, scale=2)(*data)}


x, y = regression()
inputs = keras.Input((6,))
model = Helped(inputs, keras.layers.Dense(1)(keras.layers.Dense(8, "tanh")(inputs)))
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
