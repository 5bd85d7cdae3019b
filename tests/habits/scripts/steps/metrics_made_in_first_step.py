"""Metrics that the first step makes and appends to `_metrics`, as a library does whose metrics depend on the data."""

BACKENDS = ("tensorflow", "torch")  # with plain Keras on JAX, a step cannot make variables

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping

MAKERS = {
    "far": keras.metrics.Mean,
    "squares": keras.metrics.MeanSquaredError,
    "auc": keras.metrics.AUC,
}


class Model(Stepping):
    def metric(self, name):
        found = [metric for metric in self._metrics if metric.name == name]
        if not found:
            self._metrics.append(MAKERS[name](name=name))
        return self._metrics[-1] if not found else found[0]

    def count(self, x, y):
        outputs = self(x)
        self.metric("far").update_state(ops.mean(ops.abs(outputs - y)), sample_weight=ops.shape(y)[0])
        self.metric("squares").update_state(y, outputs)
        self.metric("auc").update_state(ops.cast(y > 0, "float32"), ops.sigmoid(outputs))
        return {name: self.metric(name).result() for name in MAKERS}

    def train_step(self, data):
        x, y = data
        self.descend(x, y, self.optimizer)
        return self.count(x, y)

    def test_step(self, data):
        return self.count(*data)


x, y = regression()
model = Model()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05))
before = model.evaluate(x, y, batch_size=12, verbose=0, return_dict=True)
other = Model()
other(x[:1])
other.compile(keras.optimizers.SGD(0.05))
history = other.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False, validation_data=(x, y)).history
result = {"model": other, "histories": [history], "before": before}
