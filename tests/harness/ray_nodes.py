"""A real Ray with two nodes on this machine, each with an address of its own on the loopback."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.client import ROOT
from tests.launched.job import free_port

_ADDRESSES = ("127.0.0.2", "127.0.0.3")
_START_SECONDS = 180


@dataclass(frozen=True)
class Nodes:
    """`environ` lets a process be a driver on the head node."""

    environ: dict[str, str]


def skip_unless_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: `make test-ray` installs it in an environment of its own")


@contextlib.contextmanager
def two_nodes(folder: Path) -> Iterator[Nodes]:
    """Each node has two CPUs and, for Ray's bookkeeping only, two GPUs."""
    address = f"{_ADDRESSES[0]}:{free_port()}"
    environ = {
        **os.environ,
        "HOME": str(folder),
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "OMP_NUM_THREADS": "1",  # both nodes share this machine
    }
    environ.pop("ABREAST_SECRET", None)  # a loop has only what a test gives its workers
    link = _short(folder)
    common = ["--num-cpus=2", "--num-gpus=2", "--block"]
    head = [f"--node-ip-address={_ADDRESSES[0]}", f"--port={address.rpartition(':')[2]}", "--include-dashboard=false"]
    second = [f"--address={address}", f"--node-ip-address={_ADDRESSES[1]}"]
    with _started(["--head", f"--temp-dir={link}", *head, *common], environ, folder / "head.log"):
        environ["RAY_ADDRESS"] = address
        with _started([*second, *common], environ, folder / "second.log"):
            yield Nodes(environ)
    link.unlink()


def _short(folder: Path) -> Path:
    """A link to a folder: Ray's sockets lie in it, and their paths may have 107 bytes."""
    link = Path(f"/tmp/abreast-ray-{os.getpid()}")
    link.unlink(missing_ok=True)
    link.symlink_to(folder)
    return link


@contextlib.contextmanager
def _started(options: list[str], environ: dict[str, str], log: Path) -> Iterator[None]:
    code = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
    with log.open("w") as file:
        node = subprocess.Popen(
            [sys.executable, "-c", code, "start", *options],
            env=environ,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while "Ray runtime started" not in log.read_text():
            assert node.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield
    finally:
        node.terminate()  # it ends the processes of its node
        with contextlib.suppress(subprocess.TimeoutExpired):
            node.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(node.pid, signal.SIGKILL)
        node.wait(10)
