"""A mixture of experts that picks rows by their index: in many steps, a device, or all, have no row for an expert."""

BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits import experts
from tests.habits.data import regression

x, y = regression(rows=72)
model = experts.model()
model.compile(keras.optimizers.Adam(0.05), "mse", run_eagerly=True)
history = model.fit(x, y, epochs=3, batch_size=6, verbose=0)
result = {"model": model, "history": history}
