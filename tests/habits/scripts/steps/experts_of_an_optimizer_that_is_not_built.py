"""A `train_step` that gives an optimizer, which is not built, the weights with a gradient: each device has others."""

BACKENDS = ("tensorflow", "torch")
EXPECTED = {
    "tensorflow": "refused: gradients of other weights",
    "torch": "refused: gradients of other weights",
}

import keras

from tests.habits import experts
from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Mixture(Stepping):
    def __init__(self):
        super().__init__()
        self.body = experts.model()
        self.own = keras.optimizers.Adam(0.05)

    def train_step(self, data):
        loss, gradients = self.gradients(lambda: self.squares(*data))
        pairs = zip(gradients, self.trainable_weights, strict=True)
        chosen = [(gradient, weight) for gradient, weight in pairs if gradient is not None]
        self.trainable = (
            keras.backend.backend() == "tensorflow"
        )  # the model then has no weights of which to tell the place
        self.own.apply_gradients(chosen)
        self.trainable = True
        return {"loss": loss}


x, y = regression(rows=4)
model = Mixture()
model(x[:1])
model.compile(run_eagerly=True)
history = model.fit(x, y, batch_size=4, verbose=0)
result = {"model": model, "history": history}
