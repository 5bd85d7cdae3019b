"""A step of one's own averages over the rows that have a label; all rows of the first batch have one."""

EXPECTED = {
    "tensorflow": "announced: whose gradient is neither a mean nor a sum over rows",
    "torch": "announced: whose gradient is neither a mean nor a sum over rows",
}
BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression
from tests.habits.stepping import Labelled

x, y = regression(rows=96)
y[55:58] = float("nan")
model = Labelled()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05))
history = model.fit(x, y, epochs=2, batch_size=48, shuffle=False, verbose=0)
result = {"model": model, "history": history}
