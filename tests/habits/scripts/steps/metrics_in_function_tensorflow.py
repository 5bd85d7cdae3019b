"""Metrics updated by a method under `tf.function`, in `train_step` and `test_step`."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression


class Measured(keras.Model):
    def __init__(self, *args):
        super().__init__(*args)
        self.losses_seen = keras.metrics.Mean(name="loss")
        self.errors = keras.metrics.MeanAbsoluteError(name="error")

    @property
    def metrics(self):
        return [self.losses_seen, self.errors]

    @tf.function
    def update(self, y, y_pred, loss):
        self.losses_seen.update_state(loss)
        self.errors.update_state(y, y_pred)
        return {metric.name: metric.result() for metric in self.metrics}

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return self.update(y, y_pred, loss)

    def test_step(self, data):
        x, y = data
        y_pred = self(x, training=False)
        return self.update(y, y_pred, self.compute_loss(y=y, y_pred=y_pred))


x, y = regression()
inputs = keras.Input((6,))
model = Measured(inputs, keras.layers.Dense(1)(keras.layers.Dense(8, "tanh")(inputs)))
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, validation_data=(x[:20], y[:20]), verbose=0)
result = {"model": model, "history": history}
