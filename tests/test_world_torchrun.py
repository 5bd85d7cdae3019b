"""Under torchrun's variables: PyTorch trains what one process trains. For JAX and TensorFlow see `launched/`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from abreast.backend.torch import interface
from abreast.backend.torch.interface import choose_interface, interface_towards
from benchmarks.slow_links import ADDRESSES, DEVICE, NotPermitted, inside, slow_link
from tests.harness.client import ROOT
from tests.harness.differences import largest_difference
from tests.harness.installed import skip_unless_installed
from tests.launched.job import result, start, start_all

# Each rank starts with other weights, another seed and thus another shuffle: only rank 0's may count.
SCRIPT = """
import json, os, sys
import keras
import numpy as np
ranks = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
rank = int(next((os.environ[name] for name in ranks if name in os.environ), "0"))
keras.utils.set_random_seed(rank)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dense(3)])
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse", metrics=["mae"])
draws = np.random.default_rng(0)
x, y = draws.normal(size=(97, 4)).astype("float32"), draws.normal(size=(97, 3)).astype("float32")
if sys.argv[1] == "abreast":
    import abreast
    abreast.parallelize(model)
    assert (abreast.rank(), abreast.is_main_process()) == (rank, rank == 0)
history = model.fit(x, y, batch_size=30, epochs=2, verbose=0).history
found = {"history": history, "predicted": model.predict(x, batch_size=30, verbose=0).tolist()}
found["weights"] = [weight.tolist() for weight in model.get_weights()]
print(json.dumps(found)) if len(sys.argv) < 3 else open(f"{sys.argv[2]}/{rank}.json", "w").write(json.dumps(found))
"""


@pytest.mark.in_turn
@pytest.mark.torch
def test_processes_of_torchrun_train_what_one_process_trains() -> None:
    skip_unless_installed("torch")
    started = [start_alone(), *start_all(SCRIPT, 3, "abreast", backend="torch")]
    alone, *ranks = [result(process) for process in started]
    for name in ("history", "predicted", "weights"):
        for rank in ranks:
            assert largest_difference(alone[name], rank[name]) < 1e-5, name


@pytest.mark.in_turn
@pytest.mark.torch
def test_two_hosts_train_what_one_process_trains() -> None:
    """Emulated hosts whose own name stands for the loopback, as on many real ones."""
    skip_unless_installed("torch")
    try:
        with slow_link() as link:
            started = [
                start(SCRIPT, r, 20000, 2, "abreast", backend="torch", host=host) for r, host in enumerate(link.hosts)
            ]
            alone, *ranks = [result(process) for process in [start_alone(), *started]]
    except NotPermitted as error:
        pytest.skip(error.args[0])
    for name in ("history", "predicted", "weights"):
        for rank in ranks:
            assert largest_difference(alone[name], rank[name]) < 1e-5, name


def test_the_interface_is_the_one_that_leads_to_the_host() -> None:
    assert interface_towards("localhost") is None
    assert interface_towards("nowhere.invalid") is None
    try:
        with slow_link() as link, inside(link.hosts[0].path):
            assert [interface_towards(address) for address in ADDRESSES] == [DEVICE, DEVICE]
    except NotPermitted as error:
        pytest.skip(error.args[0])


def test_an_interface_that_the_user_chose_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = []

    def look_up(host: str) -> str:
        looked_up.append(host)
        return "eth7"

    monkeypatch.setattr(interface, "interface_towards", look_up)
    chosen = {"GLOO_SOCKET_IFNAME": "ib0"}
    choose_interface("rank0.example", chosen)
    assert (chosen, looked_up) == ({"GLOO_SOCKET_IFNAME": "ib0"}, [])
    for address, found in (
        ("rank0.example", {"GLOO_SOCKET_IFNAME": "eth7"}),
        ("localhost", {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}),
    ):
        left: dict[str, str] = {}
        choose_interface(address, left)
        assert left == found
    assert looked_up == ["rank0.example"]


def test_a_name_of_rank_0_that_stands_for_the_loopback_means_the_default_route_on_several_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with Debian's `127.0.1.1 HOSTNAME` in /etc/hosts: gloo would tell the other hosts to connect to their own loopback."""
    monkeypatch.setattr(interface, "interface_towards", {"192.0.2.1": "eth0", "rank1.example": "ib0"}.get)
    for address, several_hosts, found in (
        ("rank0.example", True, {"GLOO_SOCKET_IFNAME": "eth0"}),
        ("rank0.example", False, {}),
        ("rank1.example", True, {"GLOO_SOCKET_IFNAME": "ib0"}),
    ):
        environ: dict[str, str] = {}
        choose_interface(address, environ, several_hosts=several_hosts)
        assert environ == found


# GPUs as torch reports them; the process stops where it would connect to rank 0.
_JOIN = """
import os, keras, torch
from abreast.backend.torch import job
from abreast.backend.torch.backend import BACKEND
from abreast.launchers import read_world
chosen = []
def connect(*_, **__):
    raise ConnectionError
job.join, torch.cuda.is_available, torch.cuda.set_device = connect, lambda: True, chosen.append
for count in (4, 1):
    torch.cuda.device_count = lambda: count
    try:
        BACKEND.join(read_world())
    except ConnectionError:
        pass
print(chosen, flush=True)
os._exit(0)  # torch would look for the GPUs
"""


@pytest.mark.in_turn
@pytest.mark.torch
def test_a_process_takes_the_gpu_of_its_local_rank_or_the_only_one_that_it_is_shown() -> None:
    skip_unless_installed("torch")
    world = {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "3",
        "LOCAL_WORLD_SIZE": "4",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1234",
    }
    done = run_join({**world, "CUDA_VISIBLE_DEVICES": "2"})
    assert done.stdout == "[3, 0]\n", done.stderr


def run_join(world: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **world, "KERAS_BACKEND": "torch", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, "-c", _JOIN], env=environ, capture_output=True, text=True, timeout=120)


@pytest.mark.in_turn
@pytest.mark.torch
def test_without_abreast_the_processes_train_different_models() -> None:
    """The negative control, and the behaviour of plain Keras today: no synchronisation, and no error."""
    skip_unless_installed("torch")
    first, second, *_ = [result(process) for process in start_all(SCRIPT, 2, "plain", backend="torch")]
    assert largest_difference(first["weights"], second["weights"]) > 1e-2


def start_alone() -> subprocess.Popen[str]:
    return start(SCRIPT, None, 0, 1, "abreast", backend="torch")
