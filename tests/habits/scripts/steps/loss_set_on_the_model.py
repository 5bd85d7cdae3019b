"""A `compute_loss` and a `compute_metrics` that a script sets on one model, and not on a class."""

import keras
from keras import ops

from tests.habits.data import regression

x, y = regression(rows=48)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.compute_loss = lambda x=None, y=None, y_pred=None, sample_weight=None, training=True: (
    2 * ops.mean(ops.square(y - y_pred))
)
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
