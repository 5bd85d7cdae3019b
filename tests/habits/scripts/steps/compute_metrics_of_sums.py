"""`compute_metrics` returns a count of rows and a maximum, which are no means over rows."""

import keras
from keras import ops

from tests.habits.data import regression


class Own(keras.Sequential):
    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return {"total": ops.sum(ops.abs(y - y_pred)), "worst": ops.max(ops.abs(y - y_pred))}


x, y = regression(rows=48)
model = Own([keras.Input((6,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
