"""A step of one's own, and a `compute_metrics`, return counts, Python numbers and correlations."""

EXPECTED = {
    "tensorflow": "announced: returns a 'worst' that is neither",
    "torch": "announced: returns a 'worst' that is neither",
}
BACKENDS = ("tensorflow", "torch")
WITHOUT = {"tensorflow": ["history/worst"], "torch": ["history/worst"]}  # announced

import keras
import numpy as np
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


def array(tensor):
    return ops.convert_to_numpy(ops.stop_gradient(tensor))


class Own(Stepping):
    def train_step(self, data):
        x, y = data
        loss = self.descend(x, y, self.optimizer)
        y_pred = self(x)
        return {
            "mean": float(array(loss)),
            "correct": ops.sum(ops.cast(y_pred * y > 0, "int32")),
            "rows": ops.shape(x)[0],
            "total": float(array(ops.sum(ops.abs(y_pred - y)))),
            "worst": ops.max(ops.abs(y_pred - y)),
        }


class Correlated(keras.Sequential):
    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        logs = super().compute_metrics(x, y, y_pred, sample_weight)
        correlation = np.corrcoef(array(y_pred)[:, 0], array(y)[:, 0])[0, 1]
        return {**logs, "correlation": float(correlation), "mean": float(array(ops.mean(y_pred)))}


x, y = regression(rows=64)
own = Own()
own(x[:1])
own.compile(keras.optimizers.SGD(0.05), run_eagerly=True)
history = own.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"own": own, "history": history}

model = Correlated([keras.Input((6,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"], run_eagerly=True)
result["second"] = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0, validation_data=(2 * x, y))
result["model"] = model
