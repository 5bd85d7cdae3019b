"""The loop of each worker of Ray Train: it takes its rank from Ray, and starts the user's script in a process of its own.

Ray runs this in a thread beside the main one. In its own process, the script has a main thread, starts its framework itself,
and inherits no process group. Imports Ray, so only workers of Ray import this.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
import ray.train

from abreast.hosts import in_ray
from abreast.ray.child import Child, StreamName
from abreast.ray.failure import ScriptFailed
from abreast.ray.script import Script


def run_on_worker(config: Mapping[str, Any]) -> None:
    """Run the script until it ends. Raises `ScriptFailed` unless its exit code is 0.

    In `config`, `script` is the `Script`, and `output` the actor that shows rank 0's output, if there is one.
    """
    context, script, output = ray.train.get_context(), config["script"], config.get("output")
    rank, size = context.get_world_rank(), context.get_world_size()
    if output is not None:
        ray.get(output.write.remote("begin", str(rank).encode()))
    folder = script.folder_here()
    address, port, secret = in_ray.place_of_rank_0(rank)
    numbers = {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": context.get_local_rank(),
        "LOCAL_WORLD_SIZE": context.get_local_world_size(),
        "NODE_RANK": context.get_node_rank(),
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "ABREAST_SECRET": secret,
    }
    shown = output if rank == 0 else None
    child = Child(script.words(), _environ(script, numbers), folder)

    def take(name: StreamName, data: bytes) -> None:
        if shown is not None:
            ray.get(shown.write.remote(name, data))
        os.write(1 if name == "stdout" else 2, data)  # goes to Ray's log files

    if returned := child.run(take):
        last = None if shown is not None else child.last.decode(errors="replace")
        raise ScriptFailed(rank, size, platform.node(), returned, last)


def _environ(script: Script, numbers: Mapping[str, Any]) -> dict[str, str]:
    """The variables of the script: this worker's, those of its launch, and its rank."""
    environ = {**os.environ, **script.environ, "PYTHONUNBUFFERED": "1"}
    # Ray limits its worker to its bookkeeping CPUs, in most cases one; the script may use the whole host.
    if "OMP_NUM_THREADS" not in _first_variables():
        environ.pop("OMP_NUM_THREADS", None)
    environ.pop("ABREAST_SECRET_FILE", None)  # it would take priority over the secret of this start
    return environ | {name: str(value) for name, value in numbers.items()}


def _first_variables() -> set[str]:
    """The names of the variables with which this process was started."""
    words = Path("/proc/self/environ").read_bytes().split(b"\0")
    return {word.partition(b"=")[0].decode(errors="replace") for word in words}
