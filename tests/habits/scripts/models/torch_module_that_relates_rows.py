"""A torch module with batch normalization that relates rows in other ways, too."""

EXPECTED = {"torch": "announced: the rows of a batch are related to one another"}
BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression


class Related(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8)

    def forward(self, inputs):
        return self.norm(self.linear(inputs)) + inputs.mean(0).sum() ** 2


torch.manual_seed(1)
x, y = regression()
wrapper = keras.layers.TorchModuleWrapper(Related(), output_shape=(None, 8))
model = keras.Sequential([keras.Input((6,)), wrapper, keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, epochs=2, batch_size=23, verbose=0)
result = {"history": history, "predictions": model.predict(x, verbose=0)}
