"""A layer, a loss and a metric count their calls in Python, in attributes, containers, a global and an outer variable."""

BACKENDS = ("tensorflow",)

import keras
from keras import ops

from tests.habits.data import regression

SEEN = 0


class Fading(keras.layers.Layer):
    all_calls = 0

    def __init__(self):
        super().__init__(name="fading")
        self.calls, self.seen, self.kinds = 0, [], {"training": 0}

    def call(self, x, training=False):
        global SEEN
        SEEN += 1
        self.calls += 1
        Fading.all_calls += 1
        self.seen.append(training)
        self.kinds["training"] += 1
        return x * (1.0 + 0.1 * self.calls + 0.1 * len(self.seen) + 0.1 * self.kinds["training"] + 0.1 * SEEN)


def counting():
    losses = 0

    def loss(y, y_pred):
        nonlocal losses
        losses += 1
        return ops.mean(ops.square(y - y_pred), axis=-1) * (1.0 + 0.1 * losses)

    return loss


class Errors(keras.metrics.MeanAbsoluteError):
    calls = 0

    def update_state(self, y, y_pred, sample_weight=None):
        self.calls += 1
        return super().update_state(y, y_pred * self.calls, sample_weight)


x, y = regression(rows=64)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), Fading(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), counting(), metrics=[Errors(name="errors")])
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history, "seen": SEEN}
