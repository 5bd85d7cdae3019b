"""A `train_step` in mixed precision that scales its loss and adds up gradients over three batches, the last one short."""

BACKENDS = ("torch",)
TOLERANCE = 2e-3  # float16

import keras
import torch

from tests.habits.data import regression
from tests.habits.stepping import Stepping

keras.mixed_precision.set_global_policy("mixed_float16")


class Accumulating(Stepping):
    steps = 0

    def train_step(self, data):
        x, y = data
        loss = self.squares(x, y)
        self.optimizer.scale_loss(loss / 3).backward()
        self.steps += 1
        if self.steps % 3 == 0:
            with torch.no_grad():
                weights = self.trainable_weights
                self.optimizer.apply([weight.value.grad for weight in weights], weights)
            self.zero_grad()
        return {"loss": loss}


result = {}
for rows in (50, 62):
    x, y = regression(rows=rows)
    model = Accumulating()
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=8.0))
    history = model.fit(x, y, epochs=3, batch_size=16, shuffle=False, verbose=0)
    result[rows] = {"history": history, "model": model}
