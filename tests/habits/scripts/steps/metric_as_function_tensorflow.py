"""A metric whose `update_state` and `result` are under `tf.function`."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf

from tests.habits.data import regression


class MeanDistance(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="distance")
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    @tf.function
    def update_state(self, y, y_pred, sample_weight=None):
        self.total.assign_add(tf.reduce_sum(tf.abs(y - y_pred)))
        self.count.assign_add(tf.cast(tf.shape(y)[0], "float32"))

    @tf.function
    def result(self):
        return self.total / self.count


x, y = regression()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse", metrics=[MeanDistance()])
history = model.fit(x, y, epochs=2, batch_size=16, validation_data=(x[:20], y[:20]), verbose=0)
result = {"model": model, "history": history}
