"""A mixture of experts with `run_eagerly` that picks rows by their index: in many steps, a device has no row for an expert."""

BACKENDS = ("tensorflow",)

import keras
import tensorflow as tf
from keras import layers

from tests.habits.data import regression


class Experts(layers.Layer):
    def build(self, shape):
        self.gates = self.add_weight((shape[-1], 5))
        self.kernels = [self.add_weight((shape[-1], 4)) for _ in range(5)]

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((inputs.shape[0], 4))

    def call(self, inputs):
        gates = tf.nn.softmax(inputs @ self.gates.value)
        chosen = tf.argmax(gates, -1)
        outputs = tf.zeros((tf.shape(inputs)[0], 4))
        for index, kernel in enumerate(self.kernels):
            rows = tf.reshape(tf.where(chosen == index), (-1,))
            if len(rows):
                own = tf.gather(gates, rows)[:, index, None] * (tf.gather(inputs, rows) @ kernel.value)
                outputs = tf.tensor_scatter_nd_add(outputs, rows[:, None], own)
        return outputs


x, y = regression(rows=72)
model = keras.Sequential([keras.Input((6,)), Experts(), layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.05), "mse", run_eagerly=True)
history = model.fit(x, y, epochs=3, batch_size=6, verbose=0)
result = {"model": model, "history": history}
