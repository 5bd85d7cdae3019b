"""A callback changes what a process keeps for all of its code: registered objects, filters, formats, new names of modules."""

BACKENDS = ("torch",)

import functools
import math
import sys
import tempfile
import threading
import warnings

import keras
import numpy as np
import torch

from tests.habits.data import regression
from tests.habits.scaled import Scaled


class Odd(UserWarning):
    pass


def warned():
    try:
        warnings.warn("odd", Odd, stacklevel=2)
    except Odd:
        return 0.5
    return 1.0


@functools.lru_cache
def cached(key):
    return settings["factor"]


def remember():
    settings["factor"] = 0.5
    cached("late")
    settings["factor"] = 1.0


settings = {"factor": 0.7}
cached("early")  # the cache keeps this result
settings["factor"] = 1.0
registered, gate, state = keras.saving.get_custom_objects(), threading.Semaphore(5), np.random.RandomState(3)
with tempfile.NamedTemporaryFile("w", delete=False) as written:
    written.write("1.0\n0.5\n")
file = open(written.name)  # noqa: SIM115
generator = torch.Generator()
CASES = {
    "registered": (lambda: registered.get("factor", 1.0), lambda: registered.update(factor=0.5)),
    "filter": (warned, lambda: warnings.simplefilter("error", Odd)),
    "NumPy's format": (lambda: float(str(np.array([1 / 3]))[1:-1]), lambda: np.set_printoptions(precision=1)),
    "PyTorch's format": (lambda: float(str(torch.tensor(0.777))[7:-1]), lambda: torch.set_printoptions(precision=1)),
    "of math": (lambda: getattr(math, "factor", 1.0), lambda: setattr(math, "factor", 0.5)),
    "of sys": (lambda: getattr(sys, "factor", 1.0), lambda: setattr(sys, "factor", 0.5)),
    "of NumPy": (lambda: getattr(np, "factor", 1.0), lambda: setattr(np, "factor", 0.5)),
    "semaphore": (lambda: gate._value / 5, gate.acquire),
    "file": (lambda: 1.0 - file.tell() / 10, lambda: file.seek(4)),
    "cached": (lambda: cached("early") * (cached("late") if cached.cache_info().currsize > 1 else 1.0), remember),
    "RandomState": (lambda: float(state.get_state()[1][0]) / 2**32, lambda: state.seed(7)),
    "torch.Generator": (lambda: generator.initial_seed() / 10, lambda: generator.manual_seed(5)),
}
x, y = regression()
result = {}
generator.manual_seed(9)
with warnings.catch_warnings():
    for name, (read, change) in CASES.items():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((6,)), Scaled(8, read, activation="tanh"), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        act = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs, change=change: change() and None)
        result[name] = model.fit(x, y, epochs=3, batch_size=23, callbacks=[act], verbose=0)
np.set_printoptions(precision=8)
torch.set_printoptions(precision=4)
registered.clear()
for module in (math, sys, np):
    del module.factor
