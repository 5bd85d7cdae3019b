"""A `train_step` that leaves out weights without a gradient: each device has gradients for other experts."""

BACKENDS = ("tensorflow", "torch")

import keras

from tests.habits import experts
from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Mixture(Stepping):
    def __init__(self):
        super().__init__()
        self.body = experts.model()

    def train_step(self, data):
        loss, gradients = self.gradients(lambda: self.squares(*data))
        pairs = zip(gradients, self.trainable_weights, strict=True)
        self.optimizer.apply_gradients([(gradient, weight) for gradient, weight in pairs if gradient is not None])
        return {"loss": loss}


x, y = regression(rows=72)
model = Mixture()
model(x[:1])
model.compile(keras.optimizers.Adam(0.05), run_eagerly=True)
model.optimizer.build(model.trainable_weights)
history = model.fit(x, y, epochs=2, batch_size=2, verbose=0)
result = {"model": model, "history": history}
