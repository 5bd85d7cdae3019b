"""A Slurm of two nodes on this machine, as far as its programs are installed: one `slurmctld`, and a `slurmd -N` per node.

The nodes are named 127.0.0.1 and 127.0.0.2, which every machine resolves without a file of names.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_TRIES = 3
NODES = ("127.0.0.1", "127.0.0.2")


@dataclass(frozen=True)
class Cluster:
    environ: dict[str, str]  # that srun needs
    free_port: int


@contextmanager
def two_nodes(folder: Path) -> Iterator[Cluster]:
    """Skips the test where a program or the right to start it is missing, or where the nodes start no task."""
    missing = [name for name in ("slurmctld", "slurmd", "srun", "munged") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    if os.geteuid() != 0:
        pytest.skip("slurmd starts tasks as root only")
    ports = free_ports(5)
    munge = folder / "munge.socket"
    (folder / "slurm.conf").write_text(configuration(folder, munge, ports))
    conf = ["-f", str(folder / "slurm.conf")]
    with ExitStack() as stack:
        stack.enter_context(daemon(["munged", "--foreground", *munge_options(folder, munge)], folder))
        wait_until(munge.exists, "munged")
        stack.enter_context(daemon(["slurmctld", "-D", *conf], folder))
        for node in NODES:
            stack.enter_context(daemon(["slurmd", "-D", *conf, "-N", node], folder))
        environ = {"SLURM_CONF": str(folder / "slurm.conf")}
        wait_until(lambda: num_idle(environ) == len(NODES), "Slurm's nodes")
        _start_a_task_per_node(environ, folder)
        yield Cluster(environ, ports[4])


def _start_a_task_per_node(environ: dict[str, str], folder: Path) -> None:
    """A container may let the daemons start, and none of their tasks; and on a busy machine a first task may fail."""
    words = ["srun", "-N", str(len(NODES)), "-n", str(len(NODES)), "true"]
    for _ in range(_TRIES):
        with contextlib.suppress(subprocess.TimeoutExpired):
            if not subprocess.run(words, env={**os.environ, **environ}, capture_output=True, timeout=60).returncode:
                return
    logs = [log.read_text(errors="replace")[-1000:] for log in sorted(folder.glob("*-slurmd.log"))]
    pytest.skip("Slurm starts no task here; the nodes said:\n" + "\n".join(logs))


def munge_options(folder: Path, socket_file: Path) -> list[str]:
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    files = {"key-file": key, "socket": socket_file}
    files |= {f"{name}-file": folder / f"munge.{name}" for name in ("pid", "log", "seed")}
    return [f"--{name}={file}" for name, file in files.items()] + ["--force"]  # the folder may be readable by others


def configuration(folder: Path, munge: Path, ports: list[int]) -> str:
    host = platform.node()
    lines = [
        "ClusterName=two",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={ports[0]}",
        "SlurmUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={munge}",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool.%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/slurmd.%n.pid",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "SelectType=select/cons_tres",
        "JobAcctGatherType=jobacct_gather/none",
        "MpiDefault=none",
        "ReturnToService=2",
        *(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={os.cpu_count()}"
            for node, port in zip(NODES, ports[1:3], strict=True)
        ),
        "PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=YES",
    ]
    (folder / "state").mkdir()
    return "\n".join(lines) + "\n"


@contextmanager
def daemon(words: list[str], folder: Path) -> Iterator[None]:
    with open(folder / f"{len(list(folder.iterdir()))}-{words[0]}.log", "w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def num_idle(environ: dict[str, str]) -> int:
    words = ["sinfo", "-h", "-N", "-o", "%T"]
    done = subprocess.run(words, env={**os.environ, **environ}, capture_output=True, text=True, timeout=60)
    return done.stdout.split().count("idle")


def wait_until(is_true: Callable[[], bool], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            pytest.skip(f"{what} did not start within {seconds:.0f} s")
        time.sleep(0.2)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
