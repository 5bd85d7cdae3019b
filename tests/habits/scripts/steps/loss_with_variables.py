"""A loss with variables of its own: a running scale, and a count of its calls."""

BACKENDS = ("tensorflow", "torch")  # on JAX, plain Keras changes only variables of the model

import keras
from keras import ops

from tests.habits.data import regression


class Scaled(keras.losses.Loss):
    def __init__(self):
        super().__init__()
        self.scale = keras.Variable(1.0, trainable=False)
        self.calls = keras.Variable(0.0, trainable=False)

    def call(self, y_true, y_pred):
        errors = ops.square(y_true - y_pred)
        self.scale.assign(0.9 * self.scale + 0.1 * ops.mean(ops.stop_gradient(errors)))
        self.calls.assign_add(1.0)
        return ops.mean(errors, -1) / self.scale * ops.minimum(1.0, self.calls / 8)


x, y = regression(rows=64)
loss = Scaled()
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), loss)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"history": history, "model": model, "calls": loss.calls, "scale": loss.scale}
