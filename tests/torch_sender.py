"""Models that a user's script may have, half trained and sent to another process.

`test_torch_pickling.py` runs this file by its path, as `__main__` like a user's script: the process that loads a model,
`torch_receiver.py`, cannot import the classes and functions that are here.
"""

from __future__ import annotations

import functools
import json
import pickle
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import torch
from keras import layers, ops

from abreast.backend.torch.pickle_model import dump_model
from abreast.backend.torch.unpickle_model import load_model_and
from abreast.errors import ModelError
from tests import torch_receiver

Made = tuple[Any, Any, Any]  # a compiled model, its inputs and its targets


def rows(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def own_loss(y: Any, y_pred: Any) -> Any:
    return ops.mean(ops.abs(ops.subtract(y, y_pred)) ** 1.5)


class OwnMetric(keras.metrics.Metric):  # type: ignore[misc]
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.total.assign_add(ops.sum(y_pred))

    def result(self) -> Any:
        return self.total


class Block(layers.Layer):  # type: ignore[misc]
    def __init__(self, units: int) -> None:
        super().__init__()
        self.first = layers.Dense(units)
        self.rest = [layers.Dense(units), layers.Dense(units)]
        self.named = {"norm": layers.LayerNormalization()}
        self.lock = threading.Lock()

    def call(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.rest:
            x = layer(x)
        return self.named["norm"](x)


class Own(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.block, self.last = Block(4), layers.Dense(1)
        self.steps = keras.metrics.Sum(name="steps")

    def call(self, x: Any, training: bool = False) -> Any:
        return self.last(self.block(x))

    def train_step(self, data: Any) -> Any:
        logs = super().train_step(data)
        self.steps.update_state(1.0)
        return logs

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        return own_loss(y, y_pred) + 0.1


def dense(optimizer: Any, loss: Any = "mse") -> Made:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, activation="relu", kernel_regularizer="l2"),
            layers.BatchNormalization(),
            layers.Dense(1),
        ]
    )
    model.compile(optimizer, loss, metrics=["mae", OwnMetric(name="own")])
    return model, rows(16, 6), rows(16, 1)


def momentum() -> Made:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    return dense(keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True))


def adam() -> Made:
    return dense(keras.optimizers.Adam(0.01))


def adamw_clipped() -> Made:
    return dense(keras.optimizers.AdamW(0.01, clipnorm=0.5))


def average() -> Made:
    return dense(keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=3))


def accumulation() -> Made:
    return dense(keras.optimizers.Adam(0.01, gradient_accumulation_steps=2))


def loss_scale() -> Made:
    return dense(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)))


def loss_object() -> Made:
    return dense("rmsprop", keras.losses.Huber(delta=0.5))


def functional() -> Made:
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    shared = layers.Dense(5, activation="relu")
    h = ops.tanh(layers.Concatenate()([shared(a), shared(b)])) + 1.0
    model = keras.Model({"a": a, "b": b}, {"p": layers.Dense(1, name="p")(h), "q": layers.Dense(2, name="q")(h)})
    model.compile("adam", {"p": "mse", "q": own_loss}, metrics={"p": ["mae"]}, loss_weights={"p": 1.0, "q": 0.3})
    return model, {"a": rows(16, 6), "b": rows(16, 6)[::-1].copy()}, {"p": rows(16, 1), "q": rows(16, 2)}


def subclassed() -> Made:
    model = Own()
    model.compile("adam")
    return model, rows(16, 6), rows(16, 1)


def closures() -> Made:
    factor = 0.5

    def loss(y: Any, y_pred: Any) -> Any:
        return factor * own_loss(y, y_pred)

    model = keras.Sequential([keras.Input((6,)), layers.Lambda(lambda x: x * factor), layers.Dense(1)])
    model.compile("sgd", loss)
    return model, rows(16, 6), rows(16, 1)


def recurrent() -> Made:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Embedding(10, 4, mask_zero=True),
            layers.LSTM(4, return_sequences=True),
            layers.Bidirectional(layers.GRU(3)),
            layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    return model, np.abs(3 * rows(16, 6)).astype("int32"), rows(16, 1)


def attention() -> Made:
    x = keras.Input((4, 6))
    model = keras.Model(x, layers.Dense(1)(layers.Flatten()(layers.MultiHeadAttention(2, 3)(x, x))))
    model.compile("adam", "mse")
    return model, rows(16, 4, 6), rows(16, 1)


def seeded_dropout() -> Made:
    model = keras.Sequential([keras.Input((6,)), layers.Dropout(0.5, seed=3), layers.Dense(1)])
    model.compile("sgd", "mse")
    return model, rows(16, 6), rows(16, 1)


def very_deep() -> Made:
    h = x = keras.Input((6,))
    for _ in range(200):
        h = layers.Dense(6)(h)
    model = keras.Model(x, layers.Dense(1)(h))
    model.compile("sgd", "mse")
    return model, rows(16, 6), rows(16, 1)


def mixed_bfloat16() -> Made:
    keras.config.set_dtype_policy("mixed_bfloat16")
    return dense("adam")


def torch_module() -> Made:
    inner = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh())
    wrapped = layers.TorchModuleWrapper(inner, output_shape=(None, 4))
    model = keras.Sequential([keras.Input((6,)), wrapped, layers.Dense(1)])
    model.compile("adam", "mse")
    return model, rows(16, 6), rows(16, 1)


@functools.cache
def _receiver() -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, torch_receiver.__file__], stdin=pipe, stdout=pipe, text=True)


def _serve_elsewhere(folder: Path) -> None:
    receiver = _receiver()
    assert receiver.stdin is not None and receiver.stdout is not None
    receiver.stdin.write(f"{folder}\n")
    receiver.stdin.flush()
    assert receiver.stdout.readline() == "done\n"


def round_trip(make: Callable[[], Made], folder: Path) -> None:
    keras.utils.set_random_seed(1)
    model, x, y = make()
    model.fit(x, y, batch_size=8, verbose=0)
    model.predict(x, verbose=0)
    (folder / "model").write_bytes(dump_model(model))
    (folder / "data").write_bytes(pickle.dumps((x, y)))
    _serve_elsewhere(folder)
    received = keras.tree.flatten(pickle.loads((folder / "result").read_bytes()))
    here = keras.tree.flatten(torch_receiver.take_part(model, x, y))
    assert len(here) == len(received) > 5
    for a, b in zip(here, received, strict=True):
        np.testing.assert_array_equal(np.asarray(a, "float64"), np.asarray(b, "float64"))


def sharing_and_identities(folder: Path) -> None:
    model, x, y = functional()
    model.fit(x, y, verbose=0)
    model._abreast_tag = threading.Thread()
    again = load_model_and(dump_model(model))[0]
    assert not hasattr(again, "_abreast_tag") and again.train_function is None
    assert [v.path for v in again.variables] == [v.path for v in model.variables]
    assert set(map(id, again.optimizer._trainable_variables)) == set(map(id, again.trainable_variables))
    assert not {id(v) for v in again.variables} & {id(v) for v in model.variables}
    parameters = {id(p) for p in again.parameters()}
    assert {id(v.value) for v in again.trainable_variables} <= parameters
    assert len(again.layers) == len(model.layers)
    again.trainable_variables[0].assign(again.trainable_variables[0] * 0)
    assert float(ops.sum(ops.abs(model.trainable_variables[0]))) > 0
    again.save(folder / "again.keras")


def _refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except ModelError as error:
        return str(error)
    return ""


def unpicklable(_: Path) -> None:
    model, _, _ = subclassed()
    model.block.source = socket.socket()
    said = _refusal(lambda: dump_model(model))
    assert "model.block.source" in said and "hint:" in said, said


class Limit(int):
    """A number that pickle can write and not read."""

    def __new__(cls) -> Limit:
        return super().__new__(cls, 1000)


def unreadable(_: Path) -> None:
    model, _, _ = subclassed()
    model.block.limit = Limit()
    said = _refusal(lambda: load_model_and(dump_model(model)))
    assert "cannot make again" in said and "Limit.__new__()" in said and "hint:" in said, said


MODELS: dict[str, Callable[[], Made]] = {
    "momentum": momentum,
    "adam": adam,
    "adamw_clipped": adamw_clipped,
    "average": average,
    "accumulation": accumulation,
    "loss_scale": loss_scale,
    "loss_object": loss_object,
    "functional": functional,
    "subclassed": subclassed,
    "closures": closures,
    "recurrent": recurrent,
    "attention": attention,
    "seeded_dropout": seeded_dropout,
    "very_deep": very_deep,
    "mixed_bfloat16": mixed_bfloat16,
    "torch_module": torch_module,
}
CHECKS: dict[str, Callable[[Path], None]] = {
    **{name: functools.partial(round_trip, make) for name, make in MODELS.items()},
    "sharing_and_identities": sharing_and_identities,
    "unpicklable": unpicklable,
    "unreadable": unreadable,
}


def main() -> None:
    """Serve `NAME FOLDER` per line of the standard input; answer each with a line, `passed` or a traceback in JSON."""
    for line in sys.stdin:
        name, _, folder = line.rstrip("\n").partition(" ")
        try:
            CHECKS[name](Path(folder))
            answer = "passed"
        except Exception:
            answer = traceback.format_exc()
        finally:
            keras.config.set_dtype_policy("float32")
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
