"""A metric of the user's with the attribute `count`, beside Keras's R2Score, which makes one in its first update."""

import keras
from keras import ops

from tests.habits.data import regression


class Batches(keras.metrics.Metric):
    def __init__(self, **options):
        super().__init__(**options)
        self.count = self.add_weight(name=f"{self.name}_count", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.count.assign_add(1.0)

    def result(self):
        return self.count.value


x, y = regression(rows=50)
targets = ops.convert_to_numpy(ops.concatenate([y, 2 * y, y * y], 1))
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
model.compile("sgd", "mse", metrics=[keras.metrics.R2Score(name="r2")], weighted_metrics=[Batches(name="batches")])
history = model.fit(x, targets, batch_size=16, epochs=2, shuffle=False, verbose=0)
scores = model.evaluate(x, targets, batch_size=16, verbose=0)
result = {"model": model, "history": history, "scores": scores}
