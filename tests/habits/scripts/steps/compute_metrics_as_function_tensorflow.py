"""A `compute_loss` and a `compute_metrics` under `tf.function`."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression


class Decorated(keras.Model):
    @tf.function
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return 0.5 * super().compute_loss(x, y, y_pred, sample_weight, training)

    @tf.function
    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, y, y_pred, sample_weight)


x, y = regression()
inputs = keras.Input((6,))
model = Decorated(inputs, keras.layers.Dense(1)(keras.layers.Dense(8, "tanh")(inputs)))
model.compile("sgd", "mse", metrics=["mae"])
history = model.fit(x, y, epochs=2, batch_size=16, validation_data=(x[:20], y[:20]), verbose=0)
result = {"model": model, "history": history}
