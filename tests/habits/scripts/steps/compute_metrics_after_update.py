"""`compute_metrics` logs the optimizer's iterations, and the error of the new weights."""

BACKENDS = ("tensorflow", "torch")  # plain Keras on JAX has no values of variables in a step

import keras
from keras import ops

from tests.habits.data import regression


class Own(keras.Model):
    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        logs = super().compute_metrics(x, y, y_pred, sample_weight)
        logs["iterations"] = ops.cast(self.optimizer.iterations, "float32")
        logs["error"] = ops.mean(ops.square(self(x, training=False) - y))
        return logs


x, y = regression(rows=62)
inputs = keras.Input((6,))
model = Own(inputs, keras.layers.Dense(1)(inputs))
model.compile(keras.optimizers.SGD(0.1), metrics=["mae"], loss="mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
