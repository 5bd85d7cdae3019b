"""A metric without state of its own that holds others, and gives them rows that it relates to one another."""

import keras
from keras import layers, ops

from tests.habits.data import regression


class Normalized(keras.metrics.Metric):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.metrics = [keras.metrics.MeanAbsoluteError(), keras.metrics.MeanSquaredError()]

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_pred = (y_pred - ops.mean(y_pred, axis=0)) / (ops.std(y_pred, axis=0) + 1e-3)
        for metric in self.metrics:
            metric.update_state(y_true, y_pred, sample_weight)

    def result(self):
        return sum(metric.result() for metric in self.metrics)

    def reset_state(self):
        for metric in self.metrics:
            metric.reset_state()


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(1)
        self.normalized = Normalized(name="normalized")

    def call(self, inputs):
        return self.dense(inputs)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        self.normalized.update_state(y, y_pred, sample_weight)
        return {**super().compute_metrics(x, y, y_pred, sample_weight), "normalized": self.normalized.result()}


x, y = regression(rows=50)
model = Model()
model.compile(keras.optimizers.SGD(0.02), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
