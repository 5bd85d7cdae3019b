"""Steps of one's own use optimizers that change the gradients in their own `apply`, or in `apply_gradients`."""

EXPECTED = {"torch": "announced: neither a mean nor a sum"}
BACKENDS = ("tensorflow", "torch")

import keras
from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


def normed(gradients):
    norm = ops.sqrt(sum(ops.sum(ops.square(gradient)) for gradient in gradients))
    return [gradient / norm for gradient in gradients]


class ByApply(keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None):
        super().apply(normed(grads), trainable_variables)


class ByApplyGradients(keras.optimizers.SGD):
    def apply_gradients(self, grads_and_vars):
        gradients, variables = zip(*grads_and_vars, strict=True)
        super().apply_gradients(zip(normed(gradients), variables, strict=True))


class Own(Stepping):
    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        if isinstance(self.optimizer, ByApply):
            self.apply(self.optimizer, gradients)
        elif keras.backend.backend() == "torch":
            import torch

            with torch.no_grad():
                self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        else:
            self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return {"loss": loss}


x, y = regression(rows=64)
result = {}
for optimizer in (ByApply(0.1), ByApplyGradients(0.1)):
    model = Own()
    model(x[:1])
    model.compile(optimizer)
    history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
    result |= {type(optimizer).__name__: model, f"history of {type(optimizer).__name__}": history}
