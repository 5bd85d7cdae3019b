"""On one host nothing listens outside loopback. Reads the kernel's tables in /proc; Linux only."""

from __future__ import annotations

import ipaddress
import os
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from abreast.backend.torch.interface import check_interface
from abreast.errors import BackendError
from tests.harness.client import ROOT, Workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

_LISTEN = "0A"


@pytest.mark.in_turn
def test_nothing_listens_outside_loopback_during_a_fit(workers: Workers) -> None:
    found = workers.abreast.run(listeners_during_a_fit)
    assert found["num_processes"] == (4 if workers.backend == "torch" else 1)
    assert [address for address in found["addresses"] if not ipaddress.ip_address(address).is_loopback] == []
    if workers.backend == "torch":
        assert found["addresses"], "gloo's ranks meet on loopback: not to see that is not to look"


def test_the_test_notices_a_torch_store_that_listens_everywhere(workers: Workers) -> None:
    """The negative control: the workers' rendezvous avoids this."""
    if workers.backend != "torch":
        pytest.skip("a store of torch")
    assert {"::", "0.0.0.0"} & set(workers.abreast.run(listeners_of_a_store))


def listeners_during_a_fit() -> dict[str, Any]:
    import keras
    import numpy as np
    import psutil

    import abreast

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, devices=4)
    found: dict[str, Any] = {}

    def look(batch: int, logs: Any) -> None:
        if batch == 2:
            this = psutil.Process()
            processes = [this, *this.children(recursive=True)]
            found["num_processes"] = len(processes)
            found["addresses"] = listeners(process.pid for process in processes)

    rows = np.ones((32, 4), "float32")
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=look)
    model.fit(rows, rows[:, :3], batch_size=8, verbose=0, callbacks=[callback])
    return found


def listeners_of_a_store() -> list[str]:
    import torch.distributed as dist

    store: Any = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)  # type: ignore[attr-defined]
    try:
        return listeners([os.getpid()])
    finally:
        del store


def listeners(pids: Iterable[int]) -> list[str]:
    """The addresses on which these processes listen for TCP connections."""
    sockets = {inode for pid in pids for inode in _sockets(pid)}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN and fields[9] in sockets:
                found.append(_address(fields[1].partition(":")[0]))
    return found


def _sockets(pid: int) -> Iterable[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            yield target.removeprefix("socket:[").removesuffix("]")


def _address(text: str) -> str:
    """The kernel prints an address as 32-bit words in the machine's order."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    address = ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def test_workers_without_a_usable_network_interface_are_refused_by_name() -> None:
    with pytest.raises(BackendError, match="network interface nosuch0, which has no address") as error:
        check_interface({"GLOO_SOCKET_IFNAME": "nosuch0"})
    assert error.value.hint is not None and "GLOO_SOCKET_IFNAME" in error.value.hint
    check_interface({})


def test_a_loopback_that_is_down_is_refused_by_name() -> None:
    look = "from abreast.backend.torch.interface import check_interface; check_interface({})"
    without = ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", look]
    end = subprocess.run(
        without, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": "src"}, cwd=ROOT
    )
    if end.stderr.startswith("unshare:"):
        pytest.skip("this machine makes no network namespaces")
    assert "BackendError: PyTorch's workers use the network interface lo" in end.stderr
    assert "ip link set lo up" in end.stderr
