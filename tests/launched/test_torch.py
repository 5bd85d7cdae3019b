"""PyTorch over processes that a launcher started: what may differ between them, and what happens when one of them ends."""

from __future__ import annotations

import json
import platform
import signal

import pytest

from benchmarks.slow_links import ADDRESSES
from tests.harness.installed import skip_unless_installed
from tests.launched.job import ended, result, start, start_all
from tests.launched.test_equal import SCRIPT, equal, listened_while_two_hosts_trained_alike
from tests.launched.test_jax import APART, ENDS, ENDS_BEFORE, HEAD, code_of_rank_1_whose_end_ends_rank_0

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _installed() -> None:
    skip_unless_installed("torch")


# Each process sets up something else, finds out before or after the call, and goes on.
_DIFFERENCES = (
    HEAD
    + """
found = {}
def attempt(name, call):
    try:
        call()
        found[name] = "no error"
    except AbreastError as error:
        found[name] = f"{type(error).__name__}: {error}"
y = x[:, :1]
class OnRank1(keras.callbacks.Callback):
    def __init__(self, change):
        super().__init__()
        self.change = change
    def on_train_batch_end(self, batch, logs=None):
        if rank == 1 and batch == 0:
            self.change(self.model.layers)
def fit(model, *callbacks, x=x, y=y, **settings):
    return lambda: model.fit(x, y, batch_size=30, verbose=0, callbacks=[*callbacks], **settings)
attempt("batches", fit(made(), x=x + rank))
attempt("number of rows", fit(made(), x=x[rank:], y=y[rank:]))
attempt("model", fit(made(8 + rank)))
attempt("rate of a layer", fit(made(dropout=0.5 if rank else 0.1)))
attempt("activation", fit(made(activation="tanh" if rank else "relu")))
attempt("loss", fit(made(loss="mae" if rank else "mse")))
attempt("delta of a loss", fit(made(loss=keras.losses.Huber(1.0 + rank))))
attempt("optimizer", fit(made(optimizer=keras.optimizers.SGD(clipnorm=1.0 + rank))))
class Ranks(keras.losses.Loss):
    def __init__(self, number):
        super().__init__()
        self.ranking_weight = 1.0 + number
        self.rank = self.local_rank = number
    def call(self, a, b):
        return self.ranking_weight * keras.ops.mean((a - b) ** 2, -1)
attempt("weight of ranking", fit(made(loss=Ranks(rank))))
numbered = Ranks(0)
numbered.rank = numbered.local_rank = rank
attempt("number of the process", fit(made(loss=numbered)))
scale = 1.0 + rank
attempt("function", fit(made(loss=lambda a, b: scale * keras.ops.mean((a - b) ** 2))))
attempt("assigned", fit(made(), OnRank1(lambda layers: layers[0].bias.assign(layers[0].bias + 1.0))))
attempt("written", fit(made(), OnRank1(lambda layers: layers[0].bias.value.data.add_(1.0))))
attempt("rate in between", fit(made(dropout=0.5), OnRank1(lambda layers: setattr(layers[1], "rate", 0.1))))
attempt("rate and validation", fit(made(dropout=0.5), OnRank1(lambda layers: setattr(layers[1], "rate", 0.1)),
                                   validation_data=(x, y)))
later = ((x[:9] + (rank if i > 2 else 0), y[:9]) for i in range(5))
attempt("later batches", lambda: made().fit(later, verbose=0))
class Frozen(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 0:
            self.model.layers[0].bias.assign(np.full(8, 0.5))
attempt("alike in all", fit(made(), Frozen()))
model = made()
model.fit(x, y, batch_size=30, verbose=0)
if rank == 0:
    model.layers[0].set_weights([np.ones((4, 8)), np.ones(8)])
attempt("set on rank 0", lambda: model.evaluate(x, y, batch_size=30, verbose=0))
if rank == 1:
    model.layers[0].set_weights([np.zeros((4, 8)), np.zeros(8)])
attempt("set on rank 1", lambda: model.evaluate(x, y, batch_size=30, verbose=0))
found["total"] = total(model)
class InThread(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        thread = threading.Thread(target=attempt, args=("thread", lambda: model.predict(x, verbose=0)))
        thread.start()
        thread.join()
made().fit(x, y, verbose=0, callbacks=[InThread()])
class Keeps(keras.Sequential):
    def train_step(self, data):
        logs = super().train_step(data)
        self.last = float(logs["loss"])
        self.first_row = np.asarray(data[0][0])
        return logs
with scope:
    keeping = Keeps([keras.Input((4,)), keras.layers.Dense(1)])
    keeping.last = 0.0
    keeping.compile("sgd", "mse")
attempt("left by steps on their own rows", lambda: [keeping.fit(x, y, batch_size=9, verbose=0) for _ in range(2)])
found["train_on_batch"] = [float(model.train_on_batch(x[:9], y[:9])) for _ in range(3)]
if rank == 1:
    model.compile("sgd", "mse")
attempt("compiled anew on rank 1", lambda: model.evaluate(x, y, batch_size=30, verbose=0))
print(json.dumps(found))
"""
)


@pytest.mark.in_turn
def test_what_differs_between_ranks_is_refused_or_is_that_of_rank_0() -> None:
    first, second = [result(process) for process in start_all(_DIFFERENCES, 2, backend="torch")]
    assert first == second
    for name in ("batches", "number of rows", "later batches"):
        assert first[name].startswith(
            "DataError: the processes read different batches: those of rank 1 are not those of rank 0"
        ), name
    assert (
        "/kernel (4, 8) float32 on rank 0, and sequential_2/dense_4/kernel (4, 9) float32 on rank 1" in first["model"]
    )
    differ = "ModelError: the processes train different models: "
    for name, setting in {
        "rate of a layer": "layer 3 (Dropout).rate is 0.1 on rank 0, and 0.5 on rank 1",
        "activation": "layer 2 (Dense).activation is relu with",
        "loss": ".loss is 'mse' on rank 0, and 'mae' on rank 1",
        "delta of a loss": "['delta'] is 1.0 on rank 0, and 2.0 on rank 1",
        "optimizer": ".optimizer.clipnorm is 1.0 on rank 0, and 2.0 on rank 1",
        "weight of ranking": ".ranking_weight is 1.0 on rank 0, and 2.0 on rank 1",
        "function": ".loss is <lambda> with checksum",
        "rate in between": "layer 3 (Dropout).rate is 0.5 on rank 0, and 0.1 on rank 1",
        "rate and validation": "layer 3 (Dropout).rate is 0.5 on rank 0, and 0.1 on rank 1",
    }.items():
        assert first[name].startswith(differ), (name, first[name])
        assert setting in first[name]
    for name in ("assigned", "written"):
        assert "/bias was set to other values on rank 1 than on rank 0" in first[name], first[name]
    for name in (
        "alike in all",
        "number of the process",
        "set on rank 0",
        "set on rank 1",
        "left by steps on their own rows",
    ):
        assert first[name] == "no error"
    assert first["compiled anew on rank 1"] != "no error"
    assert first["thread"].startswith("BackendError: two threads train, evaluate or predict at a time")


# A layer begins to relate rows: by code between two calls, by a callback between two epochs.
_RELATES_LATER = (
    HEAD
    + """
class Centered(keras.layers.Layer):
    centers = False
    def call(self, x):
        return x - keras.ops.mean(x, axis=0, keepdims=True) if self.centers else x
def fitted(between_calls):
    keras.utils.set_random_seed(0)
    layer = Centered()
    with scope:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), layer, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    def change(epoch, logs):
        layer.centers = epoch == 1 and not between_calls
    callbacks = [keras.callbacks.LambdaCallback(on_epoch_begin=change)]
    model.fit(x, x[:, :1] + 1.0, batch_size=30, epochs=2, verbose=0, callbacks=callbacks)
    layer.centers = True
    model.fit(x, x[:, :1] + 1.0, batch_size=30, verbose=0)
    return total(model)
print(json.dumps([fitted(False), fitted(True)]))
"""
)


def test_a_layer_that_begins_to_relate_rows_works_on_those_of_all_ranks() -> None:
    (alone,) = [result(process) for process in start_all(_RELATES_LATER, 1, backend="torch")]
    first, second = [result(process) for process in start_all(_RELATES_LATER, 2, backend="torch")]
    assert first == second
    assert first == pytest.approx(alone, rel=1e-5)


_RANKS_APART = (
    HEAD
    + """
import h5py, warnings
h5py.get_config().track_order = rank == 1
class Scaled(keras.layers.Layer):
    def call(self, x):
        return x * (2.0 if h5py.get_config().track_order else 1.0)
with scope:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), Scaled(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    model.fit(x, x[:, :1], batch_size=30, verbose=0)
print(json.dumps([str(each.message) for each in found]))
"""
)


@pytest.mark.in_turn
def test_a_process_of_a_launcher_that_computes_otherwise_is_named_by_rank_0() -> None:
    first, second = [result(process) for process in start_all(_RANKS_APART, 2, backend="torch")]
    assert [each for each in first if each.startswith("rank:1 does not compute what the first device computes: Scaled")]
    assert not [each for each in second if "does not compute what" in each]


_BUFFERS = (
    HEAD
    + """
import torch
class Last(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.register_buffer("last", torch.zeros((), dtype=torch.int64))
    def forward(self, x):
        if self.training:
            self.last.copy_((x.detach()[:, 0] * 1000).max().long())
        return self.norm(self.linear(x))
class Looks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        pass
with scope:
    model = keras.Sequential([keras.Input((4,)), keras.layers.TorchModuleWrapper(Last(), output_shape=(None, 4))])
    model.compile("sgd", "mse")
history = model.fit(x, x, batch_size=9, epochs=2, verbose=0, callbacks=[Looks()])
print(json.dumps(history.history["loss"]))
"""
)


@pytest.mark.in_turn
def test_a_later_check_of_rows_does_not_count_as_writing_to_buffers() -> None:
    first, second = [result(process) for process in start_all(_BUFFERS, 2, backend="torch")]
    assert first == second


@pytest.mark.in_turn
def test_ranks_that_do_different_things_do_not_wait_for_one_another() -> None:
    first, second = start_all(APART, 2, backend="torch")
    output, errors = ended(first, 60)
    ended(second, 20)
    (name, evaluates) = json.loads(output)
    assert name == "evaluates"
    assert evaluates.startswith("WorkerError: the processes do different things: rank ")
    assert "the processes do different things: rank 1 makes a step that rank 0 does not make" in errors
    assert (first.returncode, second.returncode) == (1, 1)


# Each rank draws its own numbers for a Dropout.
_EQUAL = SCRIPT.replace("keras.layers.Dropout(0.2), ", "")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("size", "devices"), [(2, 2), *[pytest.param(*each, marks=pytest.mark.full) for each in ((1, 2), (3, 1), (3, 2))]]
)
def test_processes_with_several_devices_train_what_one_process_trains(size: int, devices: int) -> None:
    alone = start(_EQUAL, None, 0, 1, backend="torch")
    ranks = start_all(_EQUAL, size, backend="torch", cpu_devices=devices)
    equal(result(alone), [result(each) for each in ranks])


@pytest.mark.in_turn
def test_hosts_with_several_devices_train_what_one_process_trains() -> None:
    """They listen on their link and on the loopback. The store of rank 0 has a port on the address of its link."""
    assert listened_while_two_hosts_trained_alike(_EQUAL, "torch") <= {*ADDRESSES, "127.0.0.1"}


# Without the search in batches of one row, for which the processes would wait for one another before each step.
_ENDS = ENDS.replace("DataParallel()", "DataParallel(check_rows=False)")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("1 / 0", 1, "ended by an error"),
        pytest.param("sys.exit(3)", 1, "ended", marks=pytest.mark.full),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL, "has died"),
        pytest.param(
            "os.kill(os.getpid(), 19)",
            None,
            "has been silent for 15 s (ABREAST_HANG_SECONDS)",
            marks=pytest.mark.full,
        ),
    ],
    ids=["raises", "exits", "is killed", "is stopped"],
)
def test_a_rank_that_ends_in_a_call_ends_all(
    how: str, code: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABREAST_HANG_SECONDS", "15")
    returned = code_of_rank_1_whose_end_ends_rank_0(_ENDS, how, said, backend="torch", stops=code is None)
    assert code is None or returned == code


@pytest.mark.full
def test_rank_0_that_is_killed_ends_all_though_it_has_the_store() -> None:
    first, second = start_all(_ENDS.replace("rank == 1", "rank == 0"), 2, "os.kill(os.getpid(), 9)", backend="torch")
    _, errors = ended(second, 60)
    ended(first, 20)
    start = f"rank 0 on host {platform.node()} "  # whichever thread finds out first
    assert f"{start}has died" in errors or f"{start}cannot be reached" in errors
    assert errors.count("Exception raised from") <= 1  # the C++ frames of torch's store
    assert (first.returncode, second.returncode) == (-signal.SIGKILL, 1)


@pytest.mark.in_turn
def test_a_rank_that_ends_before_a_call_of_the_others_ends_all() -> None:
    first, second = start_all(ENDS_BEFORE, 2, backend="torch")
    _, errors = ended(first, 60)
    ended(second, 20)
    assert f"rank 1 on host {platform.node()} ended while this process waited for it in a call" in errors
    assert (first.returncode, second.returncode) == (1, 1)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "then", ["", "; BACKEND._launched._team.job.wait_for_failure()"], ids=["in a step", "before one"]
)
def test_a_worker_that_dies_ends_the_processes_of_all_hosts(then: str) -> None:
    simulated = "from abreast.backend.torch.backend import BACKEND\nabreast.use_cpu_devices(2)\nscope ="
    script = _ENDS.replace("scope =", simulated, 1)
    kill = f"exec('os.kill(BACKEND._launched._team.job.pids[1], 9){then}')"
    first, second = start_all(script, 2, kill, backend="torch")
    said = [ended(process, 60)[1] for process in (first, second)]
    killed = "the worker of rank:1/1 was killed (signal 9), perhaps out of memory"
    assert f"WorkerError: rank 1 on host {platform.node()} ended by an error: {killed}" in said[0]
    assert f"WorkerError: rank 1 on host {platform.node()}: {killed}" in said[1]
    assert (first.returncode, second.returncode) == (1, 1)
