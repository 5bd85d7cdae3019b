"""With `run_eagerly`, a schedule, an optimizer and a `compute_loss` count their calls in Python and compute by the counts."""

BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression


class Decay(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self):
        self.calls = 0

    def __call__(self, step):
        self.calls += 1
        return 0.2 / self.calls


class Pausing(keras.optimizers.SGD):
    seen = 0

    def apply(self, grads, trainable_variables=None):
        Pausing.seen += 1
        scale = 0.0 if Pausing.seen % 3 == 0 else 1.0
        return super().apply([scale * gradient for gradient in grads], trainable_variables)


class Model(keras.Sequential):
    calls = 0

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        self.calls += 1
        return super().compute_loss(x, y, y_pred, sample_weight, training) + self.calls * ops.mean(ops.square(y_pred))


x, y = regression(rows=62)
model = Model([keras.Input((x.shape[1],)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
decay = Decay()
model.compile(Pausing(decay), "mse", run_eagerly=True)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history, "calls": [model.calls, Pausing.seen, decay.calls]}
