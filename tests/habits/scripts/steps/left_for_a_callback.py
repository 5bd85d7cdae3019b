"""A step of one's own leaves its loss in an attribute, and a layer appends its mean to a list; callbacks read them."""

EXPECTED = {
    "torch": "announced: in this process, those of one device's rows",
    "tensorflow": "announced: changes it in Python",
}
BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def __init__(self):
        super().__init__()
        self.last = 0.0

    def train_step(self, data):
        x, y = data
        loss = self.descend(x, y, self.optimizer)
        self.last = float(ops.convert_to_numpy(ops.stop_gradient(loss)))
        return {"loss": loss}


seen = []
x, y = regression(rows=64)
model = Own()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05), run_eagerly=True)
reads = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(model.last))
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, callbacks=[reads], verbose=0)
result = {"model": model, "history": history, "seen": seen}
