"""A `train_step` that adds up gradients in `.grad` over two batches, the last short, with optimizers of Keras and of torch."""

BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Accumulating(Stepping):
    steps = 0

    def train_step(self, data):
        x, y = data
        loss = self.squares(x, y)
        (loss / 2).backward()
        self.steps += 1
        if self.steps % 2 == 0:
            self.update()
            self.zero_grad()
        return {"loss": loss}

    def update(self):
        self.apply(self.optimizer, [weight.value.grad for weight in self.trainable_weights])


class OfTorch(Accumulating):
    def update(self):
        self.own.step()


class Norms(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.norms = []

    def on_train_batch_end(self, batch, logs=None):
        gradients = [weight.value.grad for weight in self.model.trainable_weights]
        self.norms.append(sum(float((each**2).sum()) for each in gradients if each is not None))


result = {}
for rows in (50, 62, 67):
    for model in (Accumulating(), OfTorch()):
        for callbacks in ([], [Norms()]):
            x, y = regression(rows=rows)
            model.body.build((None, 6))
            model.own = torch.optim.SGD(model.parameters(), 0.1, momentum=0.5)
            model.compile(keras.optimizers.SGD(0.1))
            history = model.fit(x, y, epochs=3, batch_size=16, shuffle=False, verbose=0, callbacks=callbacks)
            norms = [each.norms for each in callbacks]
            result[f"{rows} {type(model).__name__} {len(callbacks)}"] = {
                "history": history,
                "model": model,
                "norms": norms,
            }
