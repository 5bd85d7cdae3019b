"""A generator that reads weights through PyTorch, and one that reads a tensor of a weight which it holds."""

BACKENDS = ("torch",)

import keras

from tests.habits.data import regression


def through_parameters():
    for number in range(5):
        scale = 1 + float(sum(each.detach().abs().sum() for each in model.parameters()))
        yield x[8 * number : 8 * number + 8] / scale, y[8 * number : 8 * number + 8]


def through_state_dict():
    for number in range(5):
        scale = 1 + sum(float(each.abs().sum()) for each in model.state_dict().values())
        yield x[8 * number : 8 * number + 8] / scale, y[8 * number : 8 * number + 8]


def through_tensor():
    for number in range(5):
        yield x[8 * number : 8 * number + 8] * float(tensor.detach().abs().sum()), y[8 * number : 8 * number + 8]


x, y = regression()
result = {}
for name, source in {"parameters": through_parameters, "state": through_state_dict, "tensor": through_tensor}.items():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    tensor = model.layers[0].kernel.value
    result[name] = [model.fit(source(), verbose=0), *model.get_weights()]
