"""`torch.jit.script` and `torch.fx` of a module with batch normalization, after a training; the graph is then trained."""

BACKENDS = ("torch",)

import keras
import torch

from tests.habits.data import regression


class Normalized(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8)

    def forward(self, inputs):
        return self.norm(self.linear(inputs))


def train(module):
    wrapper = keras.layers.TorchModuleWrapper(module, output_shape=(None, 8))
    model = keras.Sequential([keras.Input((6,)), wrapper, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model.fit(x, y, epochs=2, batch_size=23, verbose=0)


torch.manual_seed(1)
keras.utils.set_random_seed(1)
x, y = regression()
module = Normalized()
result = {"module": train(module)}
scripted = torch.jit.script(module.eval())
result["scripted"] = scripted(torch.ones(3, 6)).detach().numpy()
result["graph"] = train(torch.fx.symbolic_trace(module.train()))
