"""TensorFlow over processes that a launcher started: the result of one process, and what happens to processes that differ."""

from __future__ import annotations

import platform
import re
import signal
import time
from typing import Any

import pytest

from benchmarks.slow_links import ADDRESSES
from tests.harness.installed import skip_unless_installed
from tests.launched.job import ended, result, start, start_all
from tests.launched.test_equal import SCRIPT, equal, listened_while_two_hosts_trained_alike
from tests.launched.test_jax import DIFFERENCES, ENDS

pytestmark = pytest.mark.tensorflow

# Replicas draw random numbers of their own.
_WITHOUT_DROPOUT = SCRIPT.replace("keras.layers.Dropout(0.2), ", "")


@pytest.fixture(autouse=True)
def _installed() -> None:
    skip_unless_installed("tensorflow")


def start_ranks(script: str, *arguments: str) -> list[Any]:
    return start_all(script, 2, *arguments, backend="tensorflow")


@pytest.mark.in_turn
def test_processes_of_a_launcher_train_what_one_process_trains() -> None:
    alone = start(_WITHOUT_DROPOUT, None, 0, 1, backend="tensorflow")
    equal(result(alone), [result(each) for each in start_ranks(_WITHOUT_DROPOUT)])


@pytest.mark.in_turn
def test_hosts_with_several_devices_train_what_one_process_trains() -> None:
    """They listen on their link only."""
    assert listened_while_two_hosts_trained_alike(_WITHOUT_DROPOUT, "tensorflow") <= set(ADDRESSES)


# Embeddings of words, of positions, and of all rows: the gradients of the last two are the same entries in every process.
_EMBEDDINGS = """
from keras import layers, ops
keras.utils.set_random_seed(0)

class Words(keras.Model):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.others = layers.Embedding(9, 4), layers.Embedding(5, 4), layers.Embedding(9, 4)
        self.others.build(None)
    def call(self, ids):
        return self.words(ids) + self.places(ops.arange(5))
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.square(y_pred - self.others(y)))

with scope:
    model = Words()
    model.compile(keras.optimizers.Adam(0.01))
x = np.random.default_rng(0).integers(0, 9, (52, 5)).astype("int32")
fit = model.fit(x, x[:, ::-1], batch_size=14, epochs=2, verbose=0)
print(json.dumps({"history": fit.history, "weights": [weight.tolist() for weight in model.get_weights()]}), flush=True)
"""
_WITH_EMBEDDINGS = SCRIPT.partition("keras.utils.set_random_seed")[0] + _EMBEDDINGS


@pytest.mark.in_turn
def test_embeddings_of_positions_train_in_processes_as_in_one() -> None:
    alone = start(_WITH_EMBEDDINGS, None, 0, 1, backend="tensorflow")
    equal(result(alone), [result(each) for each in start_ranks(_WITH_EMBEDDINGS)])


# Small buckets; notes the order of the exchanges of every step.
_IN_BUCKETS = _WITHOUT_DROPOUT.replace(
    "import abreast\n",
    """
import abreast
from abreast.backend.tensorflow import processes
from abreast.hosts import ring, sums_beside
processes._BUCKET_BYTES = 64
order = []
def noting(owner, name, what):
    plain = getattr(owner, name)
    def noted(*arguments):
        order.append(what)
        result = plain(*arguments)
        order.append(what.upper())
        return result
    setattr(owner, name, noted)
noting(ring.Ring, "sum", "s")
noting(sums_beside.SumsBeside, "begin", "b")
noting(sums_beside.SumsBeside, "end", "e")
""",
).replace("print(json.dumps(found)", "found['order'] = ''.join(order)\nprint(json.dumps(found)")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), ("Adam(0.01)", "Adam(0.01, gradient_accumulation_steps=2)"), ('"mse", m', '"mse", run_eagerly=True, m')],
    ids=["each step", "accumulated", "eager"],
)
def test_gradients_are_sent_in_buckets_while_the_backward_pass_goes_on(old: str, new: str) -> None:
    alone = result(start(_WITHOUT_DROPOUT.replace(old, new, 1), None, 0, 1, backend="tensorflow"))
    found = [result(each) for each in start_all(_IN_BUCKETS.replace(old, new, 1), 3, backend="tensorflow")]
    orders = [str(each.pop("order")) for each in found]
    equal(alone, found)
    for order in orders:
        assert order.count("b") == order.count("e") >= 3 * 4
        # The first bucket is sent before or during the normalization's exchange of the backward pass, not after it.
        assert new or re.search("bB(s|S)|sbB", order), order


_CONDITIONS = """
import abreast
scope = abreast.DataParallel()
import keras
import numpy as np
from keras import ops
class OneOfTwo(keras.layers.Layer):
    def call(self, inputs):
        return ops.cond(ops.mean(inputs) > 0, lambda: inputs, lambda: 0.1 * inputs)
def train(name, optimizer, *layers):
    with scope:
        model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)], name=name)
        model.compile(optimizer, "mse")
    model.fit(x, x[:, :1], batch_size=16, verbose=0, shuffle=False)
x = np.random.default_rng(0).normal(size=(40, 4)).astype("float32")
x[:16] = abs(x[:16])  # the first rows take the same way
train("scaled", keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)))  # decides by the gradients of all
train("decides", "sgd", OneOfTwo())
"""


@pytest.mark.in_turn
def test_a_condition_on_the_rows_of_one_process_is_announced() -> None:
    processes = start_ranks(_CONDITIONS)
    errors = [ended(process)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert errors[0].count("has a condition") == 1
    assert "the step of decides has a condition" in errors[0]


# Assignments that Keras does not see.
_BY_TENSORFLOW = DIFFERENCES.replace(
    "print(json.dumps(found))",
    """
class ByTensorFlow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if rank == 1:
            self.model.layers[-1].bias.value.assign_add([1.0])
attempt("callback by TensorFlow", lambda: made().fit(x, x[:, :1], batch_size=30, verbose=0, callbacks=[ByTensorFlow()]))
class Scale(keras.layers.Layer):  # its config does not show the numbers
    power = 1.0
    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale
    def call(self, x):
        self.seen = x.shape[0]  # in a step that runs eagerly, rows of this process
        return x * self.scale**self.power
def scaled(scale=1.0, **settings):
    with scope:
        model = keras.Sequential([keras.Input((4,)), Scale(scale), keras.layers.Dense(1)])
        model.compile("sgd", "mse", **settings)
    return model
attempt("number of a layer", lambda: scaled(1.0 + rank).fit(x, x[:, :1], batch_size=30, verbose=0))
powered = scaled()
powered.layers[0].power = 1.0 + rank
attempt("number of a class", lambda: powered.fit(x, x[:, :1], batch_size=30, verbose=0))
eager = scaled(run_eagerly=True)
odd = {"batch_size": 31, "shuffle": False, "verbose": 0}
attempt("left by a step", lambda: [eager.fit(x[:31], x[:31, :1], **odd) for _ in range(2)])
accumulates = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)  # what abreast itself assigns is no such difference
attempt("accumulation", lambda: made(optimizer=accumulates).fit(x, x[:, :1], batch_size=30, epochs=2, verbose=0))
model = made(20_000)  # large variables
model.fit(x, x[:, :1], batch_size=30, verbose=0)
if rank == 1:
    model.layers[0].kernel.value.assign(np.ones((4, 20_000)))
found["large"] = model.evaluate(x, x[:, :1], batch_size=30, verbose=0)
found["large weights"] = total(model)
print(json.dumps(found))
""",
)


@pytest.mark.in_turn
def test_what_differs_between_processes_is_refused_or_is_that_of_rank_0() -> None:
    first, second = [result(process) for process in start_ranks(_BY_TENSORFLOW)]
    assert first == second
    assert first["batches"].startswith(
        "DataError: the processes read different batches: those of rank 1 are not those of rank 0"
    )
    assert "variable 0 is sequential_1/dense_2/kernel (4, 8) float32 on rank 0" in first["model"]
    assert "(4, 9) float32 on rank 1" in first["model"]
    assert first["eager"] == "no error"
    assert "dense_6/bias was set to other values on rank 1 than on rank 0" in first["callback"]
    assert "/bias was set to other values on rank 1 than on rank 0" in first["callback and validation"]
    assert first["later batches and validation"].startswith("DataError: the processes read different batches")
    assert ".rate is 0.1 on rank 0, and 0.5 on rank 1" in first["rate of a layer"]
    assert ".scale is 1.0 on rank 0, and 2.0 on rank 1" in first["number of a layer"]
    assert ".power is 1.0 on rank 0, and 2.0 on rank 1" in first["number of a class"]
    assert first["left by a step"] == "no error"
    assert first["set on rank 0"] == "no error"
    assert "/bias was set to other values on rank 1 than on rank 0" in first["callback by TensorFlow"]
    assert first["accumulation"] == "no error"
    assert first["thread"].startswith("BackendError: two threads train, evaluate or predict at a time")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("how", "said"),
    [("1 / 0", "ended by an error"), ("os.kill(os.getpid(), 9)", "has died")],
    ids=["raises", "is killed"],
)
def test_a_process_that_ends_in_a_call_ends_all(how: str, said: str) -> None:
    first, second = start_ranks(ENDS, how)
    assert first.stdout is not None and first.stdout.readline() == "ready\n"
    _, errors = ended(first, 60)
    ended(second, 20)
    assert f"rank 1 on host {platform.node()} " in errors and said in errors
    assert first.returncode == 1


@pytest.mark.in_turn
def test_ctrl_c_ends_a_process_whose_step_waits_for_one_that_is_stopped() -> None:
    first, second = start_ranks(ENDS, "os.kill(os.getpid(), 19)")
    try:
        assert first.stdout is not None and first.stdout.readline() == "ready\n"
        time.sleep(3)
        first.send_signal(signal.SIGINT)
        _, errors = ended(first, 40)
    finally:
        second.kill()
        ended(second, 20)
    assert "KeyboardInterrupt" in errors
    assert first.returncode == 130
