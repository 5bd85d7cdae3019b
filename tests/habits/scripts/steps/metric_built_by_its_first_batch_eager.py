"""Under `run_eagerly`, metrics that make their state in their first update: Keras's R2Score, and five of the user's."""

import keras
from keras import ops

from tests.habits.data import regression


class Errors(keras.metrics.Metric):
    """Makes its state where an attribute has its first value: a flag, None, a word, an empty dict."""

    first, last = False, True

    def __init__(self, name):
        super().__init__(name=name)
        self.remembered, self.parts = self.first, {}

    def update_state(self, y_true, y_pred, sample_weight=None):
        if self.remembered == self.first:
            self.errors = self.add_variable((3,), "zeros", name="errors")
            self.remembered = self.last
        self.errors.assign_add(ops.sum(ops.abs(ops.cast(y_true, y_pred.dtype) - y_pred), 0))
        self.parts.setdefault("mean", keras.metrics.Mean()).update_state(y_pred[:, 0])

    def result(self):
        return ops.sum(self.errors) + self.parts["mean"].result() if self.parts else 0.0


class ByNumber(Errors):
    first, last = None, 3


class ByTuple(Errors):
    first, last = None, (3,)


class ByWord(Errors):
    first, last = "new", "ready"


class ByMetric(keras.metrics.Metric):
    inner = None

    def update_state(self, y_true, y_pred, sample_weight=None):
        if self.inner is None:
            self.inner = keras.metrics.MeanAbsoluteError()
        self.inner.update_state(y_true, y_pred)

    def result(self):
        return 0.0 if self.inner is None else self.inner.result()


x, y = regression(rows=50)
targets = ops.convert_to_numpy(ops.concatenate([y, 2 * y, y * y], 1))
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
kinds = (Errors, ByNumber, ByTuple, ByWord, ByMetric)
metrics = [keras.metrics.R2Score(name="r2"), *(kind(name=kind.__name__) for kind in kinds)]
model.compile("sgd", "mse", metrics=metrics, run_eagerly=True)
history = model.fit(x, targets, batch_size=16, epochs=2, shuffle=False, verbose=0)
scores = model.evaluate(x, targets, batch_size=16, verbose=0)
numbers = [len(metric.variables) for metric in metrics]
result = {"model": model, "numbers": numbers, "history": history, "scores": scores}
