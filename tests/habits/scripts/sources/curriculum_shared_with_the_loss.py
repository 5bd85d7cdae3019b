"""A generator that sets a difficulty for each batch, which the loss reads, and a data set that counts the calls of a loss."""

BACKENDS = ("jax", "torch")

import keras
from keras import ops

from tests.habits.data import regression

state = {"weight": 1.0}
rate = 1.0


class Weighted(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return state["weight"] * rate * ops.mean((y_true - y_pred) ** 2, axis=-1)


class Counting(keras.losses.Loss):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def call(self, y_true, y_pred):
        self.calls.append(1)
        return ops.mean((y_true - y_pred) ** 2, axis=-1)


class Halved(keras.utils.PyDataset):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def __len__(self):
        return 2

    def __getitem__(self, index):
        factor = 0.5 ** min(len(self.calls), 3)
        return factor * x[16 * index : 16 * index + 16], y[16 * index : 16 * index + 16]


def batches():
    for number in range(5):
        state["weight"] = 1.0 / (1 + number)
        yield x[8 * number : 8 * number + 8], y[8 * number : 8 * number + 8]


def with_a_global():
    global rate
    for number in range(5):
        rate = 0.8**number
        yield x[8 * number : 8 * number + 8], y[8 * number : 8 * number + 8]


def train(source, loss):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), loss)
    return [model.fit(source, verbose=0), *model.get_weights()]


x, y = regression()
calls = []
result = {"entry": train(batches(), Weighted()), "global": train(with_a_global(), Weighted())}
result["calls"] = train(Halved(calls), Counting(calls))
