"""A `compute_metrics` that returns a maximum; `predict` before and after `evaluate`."""

import keras
from keras import ops

from tests.habits.data import regression


class Worst(keras.Sequential):
    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        found = super().compute_metrics(x, y, y_pred, sample_weight)
        return {**found, "worst": ops.max(ops.abs(y - y_pred))}


x, y = regression(rows=62)
model = Worst([keras.Input((6,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
before = model.predict(x, batch_size=16, verbose=0)
scores = model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
history = model.fit(x, y, batch_size=16, verbose=0)
after = model.predict(x, batch_size=16, verbose=0)
result = {"before": before, "scores": scores, "history": history, "after": after}
