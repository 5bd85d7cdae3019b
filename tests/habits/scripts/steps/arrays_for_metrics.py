"""Arrays with one entry per feature, and no axis of rows: for metrics of Keras and of one's own, and in nested logs."""

BACKENDS = ("tensorflow", "torch")  # with plain Keras on JAX, an own test_step must be stateless

import keras
from keras import layers, ops

from tests.habits.data import regression


class Total(keras.metrics.Metric):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.total = self.add_weight(shape=(3, 3), initializer="zeros")

    def update_state(self, values, sample_weight=None):
        self.total.assign_add(values)

    def result(self):
        return ops.max(self.total)


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(3)
        self.sums = keras.metrics.Mean(name="sums")
        self.means = keras.metrics.Sum(name="means")
        self.products = Total(name="products")

    def call(self, inputs):
        return self.dense(inputs)

    def test_step(self, data):
        x, y = data
        squares = ops.square(y - self(x))
        self.sums.update_state(ops.sum(squares, axis=0))
        self.means.update_state(ops.mean(squares, axis=0))
        self.products.update_state(ops.matmul(ops.transpose(squares), squares))
        logs = {metric.name: metric.result() for metric in (self.sums, self.means, self.products)}
        return {**logs, "of all": {"sum": ops.sum(squares), "mean": ops.mean(squares, axis=0)}}


x, y = regression(rows=48)
model = Model()
model.compile(keras.optimizers.SGD(0.02), "mse")
model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
logs = model.evaluate(x, y, batch_size=12, verbose=0, return_dict=True)
result = {"model": model, "logs": keras.tree.map_structure(lambda each: ops.convert_to_numpy(each).tolist(), logs)}
