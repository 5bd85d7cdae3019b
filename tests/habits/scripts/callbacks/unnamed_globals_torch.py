"""A callback changes globals that steps read without naming them, and objects that pickle cannot send or sends by a name."""

BACKENDS = ("torch",)

import ctypes
import logging
import sys
import types

import keras
import torch

from tests.habits.data import regression
from tests.habits.scaled import Scaled


class Single:
    factor = 1.0

    def __reduce__(self):
        return "SINGLE"


def read_made():
    import made_by_the_script

    return made_by_the_script.factor


SINGLE = Single()
made = sys.modules["made_by_the_script"] = types.ModuleType("made_by_the_script")
made.factor = 1.0
in_text = in_dict = 1.0
array, log, grown = (ctypes.c_float * 2)(1.0, 2.0), logging.getLogger("tests.habits.own"), torch.ones(1)
log.factor = 1.0
here = types.SimpleNamespace(globals=globals())
CASES = {
    "eval": (lambda: eval("in_text * 1.0"), lambda: here.globals.update(in_text=0.5)),
    "globals": (lambda: globals()["in_dict"], lambda: here.globals.update(in_dict=0.5)),
    "single": (lambda: SINGLE.factor, lambda: setattr(SINGLE, "factor", 0.5)),
    "made": (read_made, lambda: setattr(made, "factor", 0.5)),
    "global module": (lambda: made.factor, lambda: setattr(made, "factor", 0.8)),
    "ctypes": (lambda: array[0], lambda: array.__setitem__(0, 0.5)),
    "logger": (lambda: log.factor, lambda: setattr(log, "factor", 0.5)),
    "resized": (lambda: float(grown.sum()), lambda: grown.resize_(2).fill_(0.3)),
}
x, y = regression()
result = {}
for name, (read, change) in CASES.items():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), Scaled(8, read, activation="tanh"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    act = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs, change=change: (change(), None)[1])
    result[name] = model.fit(x, y, epochs=3, batch_size=23, callbacks=[act], verbose=0)
del sys.modules["made_by_the_script"]
