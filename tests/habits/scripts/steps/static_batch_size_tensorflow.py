"""A `train_step` and a loss that read the number of rows from the static shape, which `drop_remainder=True` gives."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression


def loss(y_true, y_pred):
    return tf.reduce_sum(tf.square(y_true - y_pred)) / y_pred.shape[0]


class Shifted(keras.Model):
    def train_step(self, data):
        x, y = data
        shift = tf.ones((x.shape[0], 6))
        with tf.GradientTape() as tape:
            error = tf.reduce_mean(tf.square(self(x + shift, training=True) - y))
        self.optimizer.apply(tape.gradient(error, self.trainable_variables), self.trainable_variables)
        return {"error": error}


x, y = regression(rows=46)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(12, drop_remainder=True)
result = {}
for kind in (keras.Model, Shifted):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((6,))
    model = kind(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", loss)
    history = model.fit(data, epochs=2, verbose=0)
    result[kind.__name__] = [model, history, model.evaluate(data, verbose=0), model.predict(data, verbose=0)]
