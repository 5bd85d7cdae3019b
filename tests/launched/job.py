"""Processes that take part in a job as a launcher starts them, on this host or on emulated ones."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

from benchmarks.slow_links import ADDRESSES, Namespace
from tests.harness.client import ROOT, SCRIPTS_PATH


def start_all(
    script: str, size: int, *arguments: str, backend: str = "jax", cpu_devices: int = 1, address: str = "127.0.0.1"
) -> list[subprocess.Popen[str]]:
    port = free_port()
    return [
        start(script, rank, port, size, *arguments, backend=backend, cpu_devices=cpu_devices, address=address)
        for rank in range(size)
    ]


def start(
    script: str,
    rank: int | None,
    port: int,
    size: int,
    *arguments: str,
    backend: str,
    cpu_devices: int = 1,
    host: Namespace | None = None,
    address: str = "127.0.0.1",
) -> subprocess.Popen[str]:
    """One process of `size`, as torchrun starts it, on this host or an emulated one; with None, one that is alone."""
    world = {} if rank is None else variables(rank, size, port, address if host is None else ADDRESSES[0], host)
    common = {
        "KERAS_BACKEND": backend,
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "CPU_DEVICES": str(cpu_devices),
    }
    words = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(
        words if host is None else host.command(*words),
        env={**os.environ, **common, "PYTHONPATH": f"{SCRIPTS_PATH}:{ROOT}", **world},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def variables(rank: int, size: int, port: int, address: str, host: Namespace | None = None) -> dict[str, str]:
    """Those of torchrun."""
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank if host is None else 0),
        "LOCAL_WORLD_SIZE": str(size if host is None else 1),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }


def result(process: subprocess.Popen[str]) -> Any:
    output, errors = ended(process)
    assert process.returncode == 0, errors
    return json.loads(output)


def ended(process: subprocess.Popen[str], seconds: float = 150) -> tuple[str, str]:
    """The output and the errors of a process."""
    try:
        return process.communicate(timeout=seconds)
    finally:
        process.kill()
        process.wait(10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
