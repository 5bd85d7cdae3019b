"""Callbacks read `.grad` of weights whose gradient no optimizer got: halved before, or of the other model of a GAN."""

BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Halved(Stepping):
    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        self.apply(self.optimizer, [gradient / 2 for gradient in gradients])
        return {"loss": loss}


class Two(Stepping):
    def __init__(self):
        super().__init__()
        self.other = keras.layers.Dense(1)
        self.other.build((None, 1))

    def train_step(self, data):
        x, y = data
        self.zero_grad()
        loss = ((self.other(self.body(x)) - y) ** 2).mean()
        loss.backward()
        weights = self.other.trainable_weights
        with torch.no_grad():
            self.optimizer.apply([weight.value.grad for weight in weights], weights)
        return {"loss": loss}


class Norms(keras.callbacks.Callback):
    def __init__(self, hook):
        super().__init__()
        self.norms = []
        setattr(self, hook, self.note)

    def note(self, number, logs=None):
        gradients = [weight.value.grad for weight in self.model.trainable_weights]
        self.norms.append([float((each**2).sum()) for each in gradients])


x, y = regression(rows=62)
result = {}
for kind in (Halved, Two):
    for hook in ("on_train_batch_end", "on_epoch_end"):
        model, norms = kind(), Norms(hook)
        model.body.build((None, 6))
        model.compile(keras.optimizers.SGD(0.1))
        model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0, callbacks=[norms])
        model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
        after = [weight.value.grad.numpy(force=True) for weight in model.trainable_weights]
        result[f"{kind.__name__} {hook}"] = {"norms": norms.norms, "after": after, "model": model}
