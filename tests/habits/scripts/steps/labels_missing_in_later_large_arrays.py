"""A step of one's own averages over the rows that have a label; all of the first batch's many numbers are labels."""

EXPECTED = {
    "tensorflow": "announced: whose gradient is neither a mean nor a sum over rows",
    "torch": "announced: whose gradient is neither a mean nor a sum over rows",
}
BACKENDS = ("tensorflow", "torch")

import keras
import numpy as np

from tests.habits.data import regression
from tests.habits.stepping import Labelled

x, y = regression(rows=96)
y = np.repeat(y, 400, axis=1)
y[55:58] = float("nan")
model = Labelled()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05))
history = model.fit(x, y, epochs=4, batch_size=48, shuffle=False, verbose=0)
result = {"model": model, "history": history}
