"""A callback changes objects that scripts rarely change: members of sets, keys, views, weak entries, text in memory."""

BACKENDS = ("torch",)

import collections
import decimal
import enum
import io
import logging
import math
import types
import weakref

import keras
import numpy as np
import torch

from tests.habits.data import regression
from tests.habits.scaled import Scaled


class Part:
    scale = 1.0


class Rate(float):
    pass


class Phase(enum.Enum):
    ONE = (1, 1.0)
    TWO = (2, 0.9)

    def __init__(self, number, factor):
        self.number, self.factor = number, factor


plain = math.sqrt
table, entries = {"factor": 1.0}, {"factor": 1.0}
proxy, values, get = types.MappingProxyType(table), entries.values(), entries.get
member, key, weak, held, pointed = Part(), Part(), Part(), Part(), Part()
pointer = weakref.proxy(pointed)
members, keys, fixed = {member}, {key: "entry"}, frozenset([held])
by_part = weakref.WeakKeyDictionary({weak: 1.0})
missing = collections.defaultdict(lambda: 1.0)
text, raw, objects, rate = io.StringIO("1.0"), memoryview(bytearray(b"\x01\x01")), np.array([Part(), None]), Rate(1.0)
rate.warm = 1.0
marked, graph = torch.ones(1), torch.ones(2, 2).to_sparse()
marked.scale = 1.0
log = logging.getLogger("tests.habits")
log.setLevel(logging.INFO)


def decimals():
    return float(decimal.Decimal(1) / decimal.Decimal(3)) * 3.0


def ready():
    return 0.8 if log.isEnabledFor(logging.DEBUG) else 1.0


def patch_or_restore():
    math.sqrt = (lambda number: 0.5 * number) if math.sqrt is plain else plain


CASES = {
    "proxy": (lambda: proxy["factor"], lambda: table.update(factor=0.5)),
    "view": (lambda: sum(values), lambda: entries.update(factor=0.6)),
    "method": (lambda: get("factor"), lambda: entries.update(factor=0.7)),
    "member": (lambda: next(iter(members)).scale, lambda: setattr(member, "scale", 0.5)),
    "fixed": (lambda: next(iter(fixed)).scale, lambda: setattr(held, "scale", 0.5)),
    "key": (lambda: next(iter(keys)).scale, lambda: setattr(key, "scale", 0.6)),
    "weak": (lambda: by_part[weak], lambda: by_part.update({weak: 0.7})),
    "pointer": (lambda: pointer.scale, lambda: setattr(pointed, "scale", 0.7)),
    "missing": (lambda: missing.default_factory(), lambda: setattr(missing, "default_factory", lambda: 0.8)),
    "text": (lambda: float(text.getvalue()), lambda: (text.seek(0), text.write("0.7"))),
    "raw": (lambda: float(raw[0]), lambda: raw.__setitem__(0, 2)),
    "objects": (lambda: objects[0].scale, lambda: setattr(objects[0], "scale", 0.5)),
    "number": (lambda: rate.warm, lambda: setattr(rate, "warm", 0.5)),
    "enum": (lambda: Phase.TWO.factor, lambda: setattr(Phase.TWO, "factor", 0.5)),
    "level": (ready, lambda: log.setLevel(logging.DEBUG)),
    "marked": (lambda: marked.scale, lambda: setattr(marked, "scale", 0.5)),
    "graph": (lambda: float(graph.to_dense()[0, 0]), lambda: graph.mul_(0.5)),
    "decimal": (decimals, lambda: setattr(decimal.getcontext(), "prec", 1)),
    "patched": (lambda: math.sqrt(1.0), patch_or_restore),
}
x, y = regression()
result, context = {}, decimal.getcontext().copy()
for name, (read, change) in CASES.items():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), Scaled(8, read, activation="tanh"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    act = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs, change=change: change())
    result[name] = model.fit(x, y, epochs=3, batch_size=23, callbacks=[act], verbose=0)
math.sqrt = plain
decimal.setcontext(context)
