"""A `train_step` divides its gradients by the running result of a metric, and logs the number of steps."""

BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Scaled(Stepping):
    def __init__(self):
        super().__init__()
        self.mean_loss = keras.metrics.Mean("mean_loss")

    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        self.mean_loss.update_state(loss)
        self.apply(self.optimizer, [gradient / (1 + self.mean_loss.result()) for gradient in gradients])
        return {"loss": loss, "mean_loss": self.mean_loss.result(), "steps": self.optimizer.iterations}


x, y = regression()
model = Scaled()
model.compile("sgd")
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0)
result = {"model": model, "history": history}
