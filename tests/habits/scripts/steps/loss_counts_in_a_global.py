"""A loss function that counts steps in a global variable and updates a global metric, which a callback reads."""

BACKENDS = ("tensorflow", "torch")  # on JAX, plain Keras changes only variables of the model

import keras
from keras import ops

from tests.habits.data import regression

step = keras.Variable(0.0, trainable=False)
part = keras.metrics.Mean(name="part")


def loss(y_true, y_pred):
    step.assign_add(1.0)
    distance = ops.mean(ops.abs(y_true - y_pred), -1)
    part.update_state(distance)
    return ops.mean(ops.square(y_true - y_pred), -1) + ops.minimum(1.0, step / 8) * distance


seen = []


class See(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        seen.append([float(part.result()), float(part.count)])
        part.reset_state()


x, y = regression(rows=46)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), loss)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0, callbacks=[See()])
result = {"history": history, "model": model, "seen": seen, "step": step}
