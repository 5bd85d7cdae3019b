"""JAX over processes that a launcher started: what may differ between them, and what happens when one of them ends."""

from __future__ import annotations

import json
import platform
import signal

import pytest

from tests.harness.installed import skip_unless_installed
from tests.launched.job import ended, free_port, result, start, start_all

pytestmark = pytest.mark.jax


@pytest.fixture(autouse=True)
def _installed() -> None:
    skip_unless_installed("jax")


HEAD = """
import json, os, sys, threading
import abreast
from abreast.errors import AbreastError
rank = int(os.environ["RANK"])
scope = abreast.DataParallel()
import keras
import numpy as np
x = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
def made(units=8, dropout=0, activation=None, optimizer="sgd", loss="mse", **settings):
    with scope:
        dense = keras.layers.Dense(units, activation=activation)
        model = keras.Sequential([keras.Input((4,)), dense, keras.layers.Dropout(dropout), keras.layers.Dense(1)])
        model.compile(optimizer, loss, **settings)
    return model
def total(model):
    return float(sum(np.abs(weight).sum() for weight in model.get_weights()))
"""

# Each process sets up something else, finds out before or after the call, and goes on.
DIFFERENCES = (
    HEAD
    + """
found = {}
def attempt(name, call):
    try:
        call()
        found[name] = "no error"
    except AbreastError as error:
        found[name] = f"{type(error).__name__}: {error}"
class OnRank1(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if rank == 1:
            self.model.layers[0].bias.assign(self.model.layers[0].bias + 1.0)
attempt("batches", lambda: made().fit(x + rank, x[:, :1], batch_size=30, verbose=0))
attempt("model", lambda: made(8 + rank).fit(x, x[:, :1], batch_size=30, verbose=0))
attempt("eager", lambda: made(run_eagerly=True).fit(x, x[:, :1], batch_size=30, verbose=0))
attempt("callback", lambda: made().fit(x, x[:, :1], batch_size=30, verbose=0, callbacks=[OnRank1()]))
validation = {"verbose": 0, "validation_data": (x, x[:, :1])}
attempt("callback and validation", lambda: made().fit(x, x[:, :1], batch_size=30, callbacks=[OnRank1()], **validation))
later = ((x[:9] + (rank if i > 2 else 0), x[:9, :1]) for i in range(5))
attempt("later batches and validation", lambda: made().fit(later, **validation))
attempt("rate of a layer", lambda: made(dropout=0.5 if rank else 0.1).fit(x, x[:, :1], verbose=0))
model = made()
attempt("batches again", lambda: model.fit(x + rank, x[:, :1], batch_size=30, verbose=0))
found["one by one, after an error"] = np.asarray(model(x[:3])).tolist()
model = made()
model.fit(x, x[:, :1], batch_size=30, verbose=0)
if rank == 0:
    model.layers[0].set_weights([np.ones((4, 8)), np.ones(8)])
attempt("set on rank 0", lambda: model.evaluate(x, x[:, :1], batch_size=30, verbose=0))
found["total"] = total(model)
class InThread(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        thread = threading.Thread(target=attempt, args=("thread", lambda: model.predict(x, verbose=0)))
        thread.start()
        thread.join()
made().fit(x, x[:, :1], verbose=0, callbacks=[InThread()])
found["train_on_batch"] = [float(model.train_on_batch(x[:9], x[:9, :1])) for _ in range(3)]
print(json.dumps(found))
"""
)


@pytest.mark.in_turn
def test_what_differs_between_processes_is_refused_or_is_that_of_rank_0() -> None:
    first, second = [result(process) for process in start_all(DIFFERENCES, 2)]
    assert first == second
    assert first["batches"].startswith(
        "DataError: the processes read different batches: those of rank 1 are not those of rank 0"
    )
    assert "variable 0 is sequential_1/dense_2/kernel (4, 8) float32 on rank 0" in first["model"]
    assert "(4, 9) float32 on rank 1" in first["model"]
    assert first["eager"].startswith(
        "BackendError: JAX cannot train over several processes in steps that are not compiled"
    )
    assert "dense_6/bias was set to other values on rank 1 than on rank 0" in first["callback"]
    assert "/bias was set to other values on rank 1 than on rank 0" in first["callback and validation"]
    assert first["later batches and validation"].startswith("DataError: the processes read different batches")
    assert first["rate of a layer"].startswith(
        "ModelError: the processes train different models: the compiled step of rank 1 is not that of rank 0"
    )
    assert first["set on rank 0"] == "no error"
    assert first["thread"].startswith("BackendError: two threads train, evaluate or predict at a time")


def test_a_job_of_the_scripts_own_is_refused() -> None:
    script = f"""
import abreast, jax, os
from abreast.errors import LaunchError
jax.distributed.initialize("127.0.0.1:{free_port()}", 1, 0)
try:
    abreast.DataParallel()
except LaunchError as error:
    print(error, flush=True)
os._exit(0)
"""
    output, errors = ended(start(script, None, 0, 1, backend="jax"))
    assert "jax.distributed.initialize was called before abreast could join" in output, errors


APART = (
    HEAD
    + """
def attempt(name, call):
    try:
        call()
        print(json.dumps([name, "no error"]), flush=True)
    except AbreastError as error:
        print(json.dumps([name, f"{type(error).__name__}: {error}"]), flush=True)
class Evaluates(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if abreast.is_main_process():
            self.model.evaluate(x, x[:, :1], verbose=0)
attempt("evaluates", lambda: made().fit(x, x[:, :1], epochs=2, verbose=0, callbacks=[Evaluates()]))
batches = [(x[:9], x[:9, :1])] * (2 + 2 * rank)
made().fit((each for each in batches), epochs=1, verbose=0)
"""
)


@pytest.mark.in_turn
def test_processes_that_do_different_things_do_not_wait_for_one_another() -> None:
    first, second = start_all(APART, 2)
    output, errors = ended(first, 60)
    ended(second, 20)
    ((name, evaluates),) = map(json.loads, output.splitlines())
    assert name == "evaluates"
    assert evaluates.startswith(
        "WorkerError: the processes do different things: rank 0 begins a call, and rank 1 ends an epoch"
    )
    assert "the processes do different things: rank 1 makes a step that rank 0 does not make" in errors
    assert (first.returncode, second.returncode) == (1, 1)


_SURVIVES = (
    HEAD
    + """
class Raises(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise KeyError
try:
    made().fit(x, x[:, :1], verbose=0, callbacks=[Raises()])
except KeyError:
    print(1)
"""
)


@pytest.mark.in_turn
def test_an_error_of_a_call_that_scripts_handle_is_none() -> None:
    assert [result(process) for process in start_all(_SURVIVES, 2)] == [1, 1]


ENDS = (
    HEAD
    + """
import time
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            print("ready", flush=True)
        if rank == 1 and batch == 5:
            eval(sys.argv[1])
        time.sleep(0.1)
made().fit(x, x[:, :1], batch_size=1, epochs=9, verbose=0, callbacks=[Slow()])
"""
)


def code_of_rank_1_whose_end_ends_rank_0(script: str, how: str, said: str, *, backend: str, stops: bool) -> int | None:
    """Let rank 1 end in a call; the error of rank 0 says how. `stops`: it does not end by itself."""
    first, second = start_all(script, 2, how, backend=backend)
    try:
        assert first.stdout is not None and second.stdout is not None
        assert (first.stdout.readline(), second.stdout.readline()) == ("ready\n", "ready\n")
        _, errors = ended(first, 40)
    finally:
        if stops:
            second.kill()
        ended(second, 20)
    assert f"rank 1 on host {platform.node()} {said}" in errors
    assert first.returncode == 1
    return second.returncode


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("1 / 0", 1, "ended by an error"),
        pytest.param("sys.exit(3)", 1, "ended while this process waited", marks=pytest.mark.full),
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
def test_a_process_that_ends_in_a_call_ends_all(
    how: str, code: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABREAST_HANG_SECONDS", "15")
    returned = code_of_rank_1_whose_end_ends_rank_0(ENDS, how, said, backend="jax", stops=code is None)
    # Where rank 0 ends while rank 1 waits for it at its own exit, JAX may abort rank 1 first.
    assert code is None or returned in ((code, -signal.SIGABRT) if "exit" in how else (code,))


@pytest.mark.in_turn
def test_the_death_of_rank_0_is_named() -> None:
    """Its service dies with it, and JAX would abort the others before they can say why."""
    first, second = start_all(ENDS, 2, "0")
    assert first.stdout is not None and first.stdout.readline() == "ready\n"
    first.kill()
    _, errors = ended(second, 20)
    ended(first)
    assert f"rank 0 on host {platform.node()} has died" in errors
    assert second.returncode == 1


@pytest.mark.in_turn
def test_a_process_that_is_terminated_ends() -> None:
    """JAX would swallow SIGTERM."""
    first, second = start_all(ENDS, 2, "0")
    assert first.stdout is not None and first.stdout.readline() == "ready\n"
    for process in (first, second):
        process.send_signal(signal.SIGTERM)
    assert [(ended(process, 20), process.returncode)[1] for process in (first, second)] == [-signal.SIGTERM] * 2


def test_a_framework_that_has_started_cannot_join() -> None:
    script = "import jax; jax.devices()\n" + HEAD
    process = start(script, 0, free_port(), 2, backend="jax")
    _, errors = ended(process)
    assert (
        "LaunchError: torchrun started 2 processes, and JAX has started in this one before it could join them" in errors
    )
    assert process.returncode == 1


ENDS_BEFORE = (
    HEAD
    + """
if rank == 1:
    sys.exit()
made().fit(x, x[:, :1], verbose=0)
"""
)


@pytest.mark.in_turn
def test_a_process_that_ends_before_a_call_of_the_others_ends_all() -> None:
    first, second = start_all(ENDS_BEFORE, 2)
    _, errors = ended(first, 60)
    ended(second, 20)
    assert f"rank 1 on host {platform.node()} ended while this process waited for it in a call" in errors
    assert (first.returncode, second.returncode) == (1, 1)
