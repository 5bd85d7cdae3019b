"""A step that takes the gradient's step itself, by assigning the weights."""

BACKENDS = ("tensorflow", "torch")

from keras import ops

from tests.habits.data import regression
from tests.habits.stepping import Stepping


class Own(Stepping):
    def train_step(self, data):
        x, y = data
        loss, gradients = self.gradients(lambda: self.squares(x, y))
        for weight, gradient in zip(self.trainable_weights, gradients):
            weight.assign_sub(0.1 * ops.stop_gradient(gradient))
        return {"loss": loss}


x, y = regression(rows=48)
model = Own()
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0)
result = {"model": model, "history": history}
