"""The rival on PyTorch: one process per device, each with a DDP loop over its own part of every batch.

This file is also the program of those processes, which run beside abreast's own. Each feeds slices of host tensors that it made
itself (none are sent), and computes no metrics. It uses PyTorch directly, since a rival must not run on our backend.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from abreast.bench.task import Task
from abreast.cpu import num_cores
from abreast.device_list import CPU_DEVICES

_END_SECONDS = 60


@dataclass(frozen=True)
class _Part:
    """The orders of one process: the function that makes its task, its rank, its number of batches, and its only core, if any."""

    make_task: str
    arguments: Sequence[Any]
    rank: int
    size: int
    num_batches: int
    rendezvous: str
    core: int | None


class Native:
    """The processes of the loop. While another side is timed, they wait for a command."""

    def __init__(self, task: Task, num_devices: int, data: tuple[Any, Any], cores: Sequence[int] = ()) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="abreast-bench-")
        rendezvous = str(Path(self._folder.name) / "rendezvous")
        num_batches = len(data[1]) // task.batch_size
        self._processes = []
        for rank in range(num_devices):
            core = cores[rank] if cores else None
            part = _Part(*task.again, rank, num_devices, num_batches, rendezvous, core)
            command = [sys.executable, "-m", "abreast.bench.native_torch", json.dumps(asdict(part))]
            self._processes.append(
                subprocess.Popen(command, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )

    def run(self, dropped: int, steps: int) -> float:
        """Seconds per step of the slowest rank, after `dropped` steps."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{dropped} {steps}\n")
            process.stdin.flush()
        return max(self._answer(rank, process) for rank, process in enumerate(self._processes))

    def close(self) -> None:
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
                process.communicate(timeout=_END_SECONDS)
            process.kill()
            process.wait()
        self._folder.cleanup()

    def _answer(self, rank: int, process: subprocess.Popen[str]) -> float:
        assert process.stdout is not None
        text = process.stdout.readline()
        if not text:
            raise RuntimeError(f"rank {rank} of the native loop ended with code {process.wait(_END_SECONDS)}")
        return float(text)


def _environment() -> dict[str, str]:
    """The environment of the processes. `PYTHONPATH` has all of `sys.path`, for a task that a file beside the script makes."""
    return {**os.environ, "KERAS_BACKEND": "torch", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": os.pathsep.join(sys.path)}


def wait_for(model: Any) -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def plain_scope(num_devices: int) -> Callable[[], Any] | None:
    """Keras's own training on several devices, which it does not have on PyTorch."""
    return contextlib.nullcontext if num_devices == 1 else None


class _Loop:
    """The loop of one rank."""

    def __init__(self, part: _Part) -> None:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        size, rank = part.size, part.rank
        task = _task(part)
        on_gpu = torch.cuda.is_available() and CPU_DEVICES not in os.environ
        if on_gpu:
            torch.cuda.set_device(rank)
        elif size > 1:
            torch.set_num_threads(max(1, min(torch.get_num_threads(), num_cores() // size)))
        self.model, self.optimizer, self.loss = task.build(), task.optimizer(), task.loss()
        self.optimizer.build(self.model.trainable_variables)
        self.forward: Any = self.model
        if size > 1:
            torch.distributed.init_process_group(
                "nccl" if on_gpu else "gloo", init_method=f"file://{part.rendezvous}", rank=rank, world_size=size
            )
            self.forward = DistributedDataParallel(self.model, gradient_as_bucket_view=True)
        self.rows, self.num_batches = task.batch_size // size, part.num_batches
        self.data = [torch.from_numpy(array) for array in task.rows(self.num_batches * self.rows, seed=rank)]
        self.device = "cuda" if on_gpu else "cpu"

    def run(self, dropped: int, steps: int) -> float:
        for batch in range(dropped):
            self.step(batch)
        wait_for(self.model)
        start = time.perf_counter()
        for batch in range(dropped, dropped + steps):
            self.step(batch)
        wait_for(self.model)
        return (time.perf_counter() - start) / steps

    def step(self, batch: int) -> None:
        import torch

        first = batch % self.num_batches * self.rows
        x, y = (tensor[first : first + self.rows].to(self.device, non_blocking=True) for tensor in self.data)
        self.model.zero_grad()
        self.loss(y, self.forward(x, training=True)).backward()
        weights = self.model.trainable_weights
        with torch.no_grad():
            self.optimizer.apply([weight.value.grad for weight in weights], weights)


def _task(part: _Part) -> Task:
    module, _, function = part.make_task.partition(":")
    task: Task = getattr(importlib.import_module(module), function)(*part.arguments)
    return task


def main() -> None:
    part = _Part(**json.loads(sys.argv[1]))
    sys.argv = ["abreast"]  # as in `cell.py`
    if part.core is not None:
        os.sched_setaffinity(0, {part.core})
    loop = _Loop(part)
    for command in sys.stdin:
        dropped, steps = map(int, command.split())
        print(loop.run(dropped, steps), flush=True)


if __name__ == "__main__":
    main()
