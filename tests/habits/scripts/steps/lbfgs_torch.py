"""A `train_step` steps with `torch.optim.LBFGS`, whose closure computes the loss several times."""

BACKENDS = ("torch",)
EXPECTED = {"torch": "refused: torch.optim.LBFGS"}

import keras
import torch

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def train_step(self, data):
        x, y = data

        def closure():
            self.search.zero_grad()
            loss = self.squares(x, y)
            loss.backward()
            return loss

        return {"loss": self.search.step(closure).detach()}


x, y = regression()
model = Own()
model(x[:1])
model.search = torch.optim.LBFGS([weight.value for weight in model.trainable_weights], lr=0.1, max_iter=3)
model.compile(keras.optimizers.SGD(0.1))
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
