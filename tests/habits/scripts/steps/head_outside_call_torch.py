"""A model whose `call` is the encoder alone: its step calls a head, and makes it there, on PyTorch."""

EXPECTED = {"torch": "refused: is built inside a step"}
BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression


class WithHead(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.layers.Dense(8, "relu")
        self.head = keras.Sequential(
            [keras.layers.Dense(4, "tanh"), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
        )

    def call(self, x):
        return self.encoder(x)

    def train_step(self, data):
        x, y = data
        self.zero_grad()
        loss = torch.mean(torch.square(self.head(self(x, training=True), training=True) - y))
        loss.backward()
        variables = self.encoder.trainable_variables
        with torch.no_grad():
            self.optimizer.apply([variable.value.grad for variable in variables], variables)
            for variable in self.head.trainable_variables:
                variable.assign(variable.value - 0.05 * variable.value.grad)
        return {"loss": loss}


x, y = regression(rows=48)
model = WithHead()
model.compile(keras.optimizers.SGD(0.05), "mse")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
weights = [keras.ops.convert_to_numpy(variable) for variable in model.variables]
result = {"history": history, "weights": weights}
