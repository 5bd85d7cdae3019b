"""A metric that the first step makes and appends to `_metrics`, in a step that reads a value in Python."""

EXPECTED = {"tensorflow": "announced: each replica changes its own copy"}
BACKENDS = ("tensorflow",)

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Model(Stepping):
    def train_step(self, data):
        x, y = data
        loss = self.descend(x, y, self.optimizer)
        if float(loss) > 0 and len(self._metrics) < 2:
            self._metrics.append(keras.metrics.Mean(name="far"))
        self._metrics[-1].update_state(ops.mean(ops.abs(self(x) - y)), sample_weight=ops.shape(y)[0])
        return {"far": self._metrics[-1].result()}


x, y = regression(rows=48)
model = Model()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05), "mse", run_eagerly=True)
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False).history
result = {"model": model, "histories": [history]}
