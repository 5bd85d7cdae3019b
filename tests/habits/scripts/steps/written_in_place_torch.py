"""A `train_step` writes in place: to weights, through `.data` to a network of a global, and to a list of averages of its rows."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "announced: averages keeps results of the rows in Python"}

import keras
import torch

from tests.habits.data import regression
from tests.habits.stepping import Stepping

target = torch.nn.Linear(6, 1)
averages = []


class Own(Stepping):
    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        weights = [weight.value for weight in self.trainable_weights]
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients):
                weight.sub_(0.1 * gradient)
            for kept, weight in zip(target.parameters(), (weights[0].mean(1)[None], weights[-1])):
                kept.data.mul_(0.9).add_(weight, alpha=0.1)
            torch._foreach_lerp_(averages, weights, 0.1)
        return {"loss": loss}


x, y = regression(rows=64)
with torch.no_grad():
    target.weight.fill_(0.5)
    target.bias.fill_(0.25)
model = Own()
model(x[:1])
averages += [weight.value.detach().clone() for weight in model.trainable_weights]
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
kept = [each.detach().cpu().numpy() for each in (*target.parameters(), *averages)]
result = {"model": model, "history": history, "kept": kept}
