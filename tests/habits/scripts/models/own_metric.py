"""A metric class of one's own that keeps the largest error and the number of rows."""

import keras
from keras import ops

from tests.habits.data import regression


class Worst(keras.metrics.Metric):
    def __init__(self, name="worst", **kwargs):
        super().__init__(name=name, **kwargs)
        self.largest = self.add_variable((), "zeros", name="largest")
        self.rows = self.add_variable((), "zeros", name="rows")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.largest.assign(ops.maximum(self.largest, ops.max(ops.abs(y_true - y_pred))))
        self.rows.assign(self.rows + ops.cast(ops.shape(y_true)[0], "float32"))

    def result(self):
        return {"largest": self.largest.value, "rows": self.rows.value}


x, y = regression()
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=[Worst()])
history = model.fit(x, y, epochs=2, batch_size=10, verbose=0)
result = {"history": history, "evaluate": model.evaluate(x, y, verbose=0, return_dict=True)}
