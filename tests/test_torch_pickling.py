"""A PyTorch model sent to another process predicts and trains on as the original does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

_SOURCE = Path(__file__).resolve().parents[1] / "src"

# Runs as `__main__`, like a user's script: its classes and functions cannot be imported by the process that loads.
_SENDER = '''
import pickle, socket, subprocess, sys, threading
import numpy as np, keras, torch
from keras import layers, ops
from abreast.backend.torch.pickle_model import dump_model
from abreast.errors import ModelError

def rows(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")

def own_loss(y, y_pred):
    return ops.mean(ops.abs(ops.subtract(y, y_pred)) ** 1.5)

class OwnMetric(keras.metrics.Metric):
    def __init__(self, **options):
        super().__init__(**options)
        self.total = self.add_weight(name="total", initializer="zeros")
    def update_state(self, y, y_pred, sample_weight=None):
        self.total.assign_add(ops.sum(y_pred))
    def result(self):
        return self.total

class Block(layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.first = layers.Dense(units)
        self.rest = [layers.Dense(units), layers.Dense(units)]
        self.named = {"norm": layers.LayerNormalization()}
        self.lock = threading.Lock()
    def call(self, x):
        x = self.first(x)
        for layer in self.rest:
            x = layer(x)
        return self.named["norm"](x)

class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.block, self.last = Block(4), layers.Dense(1)
        self.steps = keras.metrics.Sum(name="steps")
    def call(self, x, training=False):
        return self.last(self.block(x))
    def train_step(self, data):
        logs = super().train_step(data)
        self.steps.update_state(1.0)
        return logs
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return own_loss(y, y_pred) + 0.1

def dense(optimizer, loss="mse"):
    model = keras.Sequential([
        keras.Input((6,)),
        layers.Dense(8, activation="relu", kernel_regularizer="l2"),
        layers.BatchNormalization(),
        layers.Dense(1),
    ])
    model.compile(optimizer, loss, metrics=["mae", OwnMetric(name="own")])
    return model, rows(16, 6), rows(16, 1)

def momentum():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    return dense(keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True))

def adam():
    return dense(keras.optimizers.Adam(0.01))

def adamw_clipped():
    return dense(keras.optimizers.AdamW(0.01, clipnorm=0.5))

def average():
    return dense(keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=3))

def accumulation():
    return dense(keras.optimizers.Adam(0.01, gradient_accumulation_steps=2))

def loss_scale():
    return dense(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)))

def loss_object():
    return dense("rmsprop", keras.losses.Huber(delta=0.5))

def functional():
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    shared = layers.Dense(5, activation="relu")
    h = ops.tanh(layers.Concatenate()([shared(a), shared(b)])) + 1.0
    model = keras.Model({"a": a, "b": b}, {"p": layers.Dense(1, name="p")(h), "q": layers.Dense(2, name="q")(h)})
    model.compile("adam", {"p": "mse", "q": own_loss}, metrics={"p": ["mae"]}, loss_weights={"p": 1.0, "q": 0.3})
    return model, {"a": rows(16, 6), "b": rows(16, 6)[::-1].copy()}, {"p": rows(16, 1), "q": rows(16, 2)}

def subclassed():
    model = Own()
    model.compile("adam")
    return model, rows(16, 6), rows(16, 1)

def closures():
    factor = 0.5
    def loss(y, y_pred):
        return factor * own_loss(y, y_pred)
    model = keras.Sequential([keras.Input((6,)), layers.Lambda(lambda x: x * factor), layers.Dense(1)])
    model.compile("sgd", loss)
    return model, rows(16, 6), rows(16, 1)

def recurrent():
    model = keras.Sequential([
        keras.Input((6,)),
        layers.Embedding(10, 4, mask_zero=True),
        layers.LSTM(4, return_sequences=True),
        layers.Bidirectional(layers.GRU(3)),
        layers.Dense(1),
    ])
    model.compile("adam", "mse")
    return model, np.abs(3 * rows(16, 6)).astype("int32"), rows(16, 1)

def attention():
    x = keras.Input((4, 6))
    model = keras.Model(x, layers.Dense(1)(layers.Flatten()(layers.MultiHeadAttention(2, 3)(x, x))))
    model.compile("adam", "mse")
    return model, rows(16, 4, 6), rows(16, 1)

def seeded_dropout():
    model = keras.Sequential([keras.Input((6,)), layers.Dropout(0.5, seed=3), layers.Dense(1)])
    model.compile("sgd", "mse")
    return model, rows(16, 6), rows(16, 1)

def very_deep():
    h = x = keras.Input((6,))
    for _ in range(200):
        h = layers.Dense(6)(h)
    model = keras.Model(x, layers.Dense(1)(h))
    model.compile("sgd", "mse")
    return model, rows(16, 6), rows(16, 1)

def mixed_bfloat16():
    keras.config.set_dtype_policy("mixed_bfloat16")
    return dense("adam")

def torch_module():
    inner = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh())
    model = keras.Sequential([keras.Input((6,)), keras.layers.TorchModuleWrapper(inner, output_shape=(None, 4)), layers.Dense(1)])
    model.compile("adam", "mse")
    return model, rows(16, 6), rows(16, 1)

RECEIVER = """
import pickle, sys
from abreast.backend.torch.unpickle_model import load_model
folder = sys.argv[1]
model = load_model(open(folder + "/model", "rb").read())
x, y = pickle.load(open(folder + "/data", "rb"))
model._ran_in_receiver = True
REST
pickle.dump(take_part(model, x, y), open(folder + "/result", "wb"))
"""
PART = """
def take_part(model, x, y):
    results = [model.predict(x, verbose=0)]
    results += [model.train_on_batch(x, y, return_dict=True) for _ in range(3)]
    results += [model.evaluate(x, y, verbose=0, return_dict=True)]
    results += [[v.numpy() for v in model.variables], [v.numpy() for v in model.optimizer.variables]]
    results += [len(model.trainable_variables), len({id(v.value) for v in model.variables})]
    return results
"""
exec(PART)

def round_trip(make, folder):
    keras.utils.set_random_seed(1)
    model, x, y = make()
    model.fit(x, y, batch_size=8, verbose=0)
    model.predict(x, verbose=0)
    with open(folder + "/model", "wb") as file:
        file.write(dump_model(model))
    with open(folder + "/data", "wb") as file:
        pickle.dump((x, y), file)
    subprocess.run([sys.executable, "-c", RECEIVER.replace("REST", PART), folder], check=True, timeout=120)
    with open(folder + "/result", "rb") as file:
        received = keras.tree.flatten(pickle.load(file))
    here = keras.tree.flatten(take_part(model, x, y))
    assert len(here) == len(received) > 5
    for a, b in zip(here, received):
        np.testing.assert_array_equal(np.asarray(a, "float64"), np.asarray(b, "float64"))

def sharing_and_identities():
    from abreast.backend.torch.unpickle_model import load_model
    model, x, y = functional()
    model.fit(x, y, verbose=0)
    model._abreast_tag = threading.Thread()
    again = load_model(dump_model(model))
    assert not hasattr(again, "_abreast_tag") and again.train_function is None
    assert [v.path for v in again.variables] == [v.path for v in model.variables]
    assert set(map(id, again.optimizer._trainable_variables)) == set(map(id, again.trainable_variables))
    assert not {id(v) for v in again.variables} & {id(v) for v in model.variables}
    parameters = {id(p) for p in again.parameters()}
    assert {id(v.value) for v in again.trainable_variables} <= parameters
    assert len(again.layers) == len(model.layers)
    again.trainable_variables[0].assign(again.trainable_variables[0] * 0)
    assert float(ops.sum(ops.abs(model.trainable_variables[0]))) > 0
    again.save(sys.argv[2] + "/again.keras")

def unpicklable():
    model, x, y = subclassed()
    model.block.source = socket.socket()
    try:
        dump_model(model)
    except ModelError as error:
        assert "model.block.source" in str(error) and "hint:" in str(error), error
    else:
        raise AssertionError("was not refused")

name, folder = sys.argv[1:3]
globals()[name]() if name in ("sharing_and_identities", "unpicklable") else round_trip(globals()[name], folder)
print("passed", name)
'''


def _run(name: str, folder: Path) -> None:
    script = folder / "sender.py"
    script.write_text(_SENDER)
    environment = os.environ | {
        "KERAS_BACKEND": "torch",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(_SOURCE),
    }
    ended = subprocess.run(
        [sys.executable, str(script), name, str(folder)], env=environment, capture_output=True, text=True, timeout=200
    )
    assert f"passed {name}" in ended.stdout, ended.stderr


@pytest.mark.parametrize(
    "model",
    [
        "momentum",
        pytest.param("adam", marks=pytest.mark.full),
        pytest.param("adamw_clipped", marks=pytest.mark.full),
        pytest.param("average", marks=pytest.mark.full),
        "accumulation",
        "loss_scale",
        pytest.param("loss_object", marks=pytest.mark.full),
        pytest.param("functional", marks=pytest.mark.full),
        "subclassed",
        "closures",
        pytest.param("recurrent", marks=pytest.mark.full),
        "attention",
        pytest.param("seeded_dropout", marks=pytest.mark.full),
        "very_deep",
        pytest.param("mixed_bfloat16", marks=pytest.mark.full),
        "torch_module",
    ],
)
def test_a_half_trained_model_goes_on_elsewhere_as_here(model: str, tmp_path: Path) -> None:
    _run(model, tmp_path)


def test_what_was_shared_stays_shared_and_what_was_apart_apart(tmp_path: Path) -> None:
    _run("sharing_and_identities", tmp_path)


def test_what_cannot_be_sent_is_named_with_its_path(tmp_path: Path) -> None:
    _run("unpicklable", tmp_path)
