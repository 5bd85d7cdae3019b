"""A step of one's own with an optimizer of PyTorch's."""

BACKENDS = ("torch",)

import torch

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        if self.sgd is None:
            self.sgd = torch.optim.SGD(self.parameters(), lr=0.1)
        self.sgd.step()
        return {"loss": loss}

    sgd = None


x, y = regression(rows=48)
model = Own()
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
