"""A host that comes late trains with the others; one that does not fit is named by all, before the first step."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.slow_links import ADDRESSES, Namespace, NotPermitted, slow_link
from tests.harness.client import BACKENDS
from tests.harness.installed import skip_unless_installed
from tests.launched.emulated_hosts import pull_cable
from tests.launched.job import ended, free_port, result, start

pytestmark = [
    pytest.mark.in_turn,
    pytest.mark.parametrize("backend", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in BACKENDS]),
]
HERE = platform.node()
_PORT = 20000
# The first argument of a process is what it changes before it joins.
_TRAINS = """
import json, sys
import abreast
exec(sys.argv.pop(1))
scope = abreast.DataParallel()
import keras
import numpy as np
keras.utils.set_random_seed(1)
with scope:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
x = np.random.default_rng(0).normal(size=(12, 4)).astype("float32")
history = model.fit(x, x[:, :1], batch_size=12, verbose=0)
print(json.dumps(history.history["loss"][0]))
"""


@pytest.fixture(autouse=True)
def _installed(backend: str) -> None:
    skip_unless_installed(backend)


@pytest.mark.full
def test_a_process_that_comes_late_with_more_devices_trains_with_the_others(backend: str) -> None:
    port = free_port()
    first = start(_TRAINS, 0, port, 2, "", backend=backend)
    time.sleep(6)
    second = start(_TRAINS, 1, port, 2, "abreast.use_cpu_devices(2)", backend=backend)
    loss = result(second)
    output, errors = ended(first)
    assert float(output.splitlines()[-1]) == loss
    said = (
        f"abreast: the processes have other numbers of devices: rank 1 on host {HERE} 2, and rank 0 on host {HERE} 1\n"
    )
    assert errors.count(said) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("abreast.__version__ = '0.0.1'", "rank 1 on host {0} has abreast 0.0.1, and rank 0 on host {0} "),
        pytest.param(
            "import keras; keras.__version__ = '2.9'",
            "rank 1 on host {0} has Keras 2.9, and rank 0 on host {0} 3.",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "import os, importlib; importlib.import_module(os.environ['KERAS_BACKEND']).__version__ = '0.3'",
            "0.3, and rank 0 on host {0} ",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "sys.argv[0] = sys.argv[1]",
            "rank 1 on host {0} runs the script train.py (checksum ",
            marks=pytest.mark.full,
        ),
    ],
    ids=["abreast", "Keras", "framework", "script"],
)
def test_a_process_that_does_not_fit_is_named_by_all(backend: str, change: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    port, script = free_port(), str(tmp_path / "train.py")
    processes = [start(_TRAINS, rank, port, 2, change if rank else "", script, backend=backend) for rank in (0, 1)]
    for process in processes:
        output, errors = ended(process)
        assert (process.returncode, output) == (1, "")
        (error,) = (line for line in errors.splitlines() if line.startswith("abreast.errors."))
        assert error.startswith("abreast.errors.LaunchError: rank 1 on host ") and said.format(HERE) in error


@pytest.fixture
def hosts() -> Iterator[tuple[Namespace, ...]]:
    try:
        with slow_link() as link:
            yield link.hosts
    except NotPermitted as error:
        pytest.skip(error.args[0])


@pytest.mark.full
def test_a_host_whose_cable_is_pulled_is_missing_in_time(
    backend: str, hosts: tuple[Namespace, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABREAST_JOIN_SECONDS", "20")
    pull_cable(hosts[1])
    first, second = (start(_TRAINS, rank, _PORT, 2, "", backend=backend, host=hosts[rank]) for rank in (0, 1))
    (output, errors), (output_2, errors_2) = ended(first, 90), ended(second, 90)
    assert (first.returncode, output, second.returncode, output_2) == (1, "", 1, "")
    assert f"rank 1 of 2 did not reach rank 0 within 20 s; there are rank 0 on host {HERE}" in errors
    assert f"rank 1 on host {HERE} has not reached rank 0 at {ADDRESSES[0]}:{_PORT} within 20 s" in errors_2


@pytest.mark.full
@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "why"),
    [("lo", "is the loopback"), pytest.param("other0", "has no address here", marks=pytest.mark.full)],
)
def test_an_interface_that_others_do_not_reach_is_named_by_all(
    backend: str, name: str, why: str, hosts: tuple[Namespace, ...]
) -> None:
    if backend != "torch":
        pytest.skip("gloo of PyTorch alone is told its interface")
    change = f"import os; os.environ['GLOO_SOCKET_IFNAME'] = {name!r}"
    processes = [
        start(_TRAINS, rank, _PORT, 2, change if rank else "", backend=backend, host=hosts[rank]) for rank in (0, 1)
    ]
    (_, errors), (_, errors_2) = (ended(process, 90) for process in processes)
    assert f"rank 1 on host {HERE} ended by an error: the network interface {name} (GLOO_SOCKET_IFNAME) {why}" in errors
    assert f"LaunchError: the network interface {name} (GLOO_SOCKET_IFNAME) {why}" in errors_2
    assert [process.returncode for process in processes] == [1, 1]
