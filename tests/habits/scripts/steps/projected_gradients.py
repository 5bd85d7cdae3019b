"""PCGrad: the gradient of one task is projected where it conflicts with the other's, which it does after some steps."""

EXPECTED = {
    "tensorflow": "announced: whose gradient is neither a mean nor a sum over rows",
    "torch": "announced: whose gradient is neither a mean nor a sum over rows",
}
BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Projected(Stepping):
    def train_step(self, data):
        x, y = data
        one_loss, ones = self.gradients(lambda: self.squares(x, y + 2.0))
        other_loss, others = self.gradients(lambda: self.squares(x, y + 4.0))
        mixed = []
        for one, other in zip(ones, others, strict=True):
            agreement = ops.sum(one * other)
            mixed.append(one + other - ops.minimum(agreement, 0.0) * other / (ops.sum(ops.square(other)) + 1e-8))
        self.apply(self.optimizer, mixed)
        return {"one": one_loss, "other": other_loss}


x, y = regression(rows=96)
model = Projected()
model(x[:1])
model.compile(keras.optimizers.SGD(0.05))
history = model.fit(x, y, epochs=6, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
