"""The rival on PyTorch: one process per device, each with a DDP loop over its own part of every batch.

This file is also the script of those processes, which live beside abreast's own. Each feeds slices of host tensors that it
made itself (nothing is sent), and keeps no metric.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cases import Case, case


class Native:
    """The processes; all wait for their next command while something else is timed."""

    def __init__(self, case: Case, num_devices: int, data: tuple[Any, Any], cores: Sequence[int] = ()) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._processes = []
        for rank in range(num_devices):
            options = {
                "case": case.name,
                "batch_size": case.batch_size,
                "num_batches": len(data[0]) // case.batch_size,
                "rank": rank,
                "size": num_devices,
                "rendezvous": str(Path(self._folder.name) / "rendezvous"),
                "core": cores[rank] if cores else None,
            }
            command = [sys.executable, __file__, json.dumps(options)]
            environment = os.environ | {"KERAS_BACKEND": "torch", "GLOO_SOCKET_IFNAME": "lo"}
            self._processes.append(
                subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )

    def run(self, dropped: int, steps: int) -> float:
        """Seconds per step, after `dropped` steps; the slowest rank's."""
        for process in self._processes:
            process.stdin.write(f"{dropped} {steps}\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
        return max(float(process.stdout.readline()) for process in self._processes)  # type: ignore[union-attr]

    def close(self) -> None:
        for process in self._processes:
            process.communicate(timeout=60)
        self._folder.cleanup()


def wait_for(model: Any) -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def plain_scope(num_devices: int) -> Callable[[], Any] | None:
    """Keras's own way to several devices: here it has none."""
    return contextlib.nullcontext if num_devices == 1 else None


class _Loop:
    """One rank's part."""

    def __init__(self, options: dict[str, Any]) -> None:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        size, rank = options["size"], options["rank"]
        on_gpu = torch.cuda.is_available() and "ABREAST_CPU_DEVICES" not in os.environ
        if on_gpu:
            torch.cuda.set_device(rank)
        elif size > 1:
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // size))
        self.case = case(options["case"], options["batch_size"])
        self.model, self.optimizer, self.loss = self.case.build(), self.case.optimizer(), self.case.loss()
        self.optimizer.build(self.model.trainable_variables)
        self.forward: Any = self.model
        if size > 1:
            torch.distributed.init_process_group(
                "nccl" if on_gpu else "gloo", init_method=f"file://{options['rendezvous']}", rank=rank, world_size=size
            )
            self.forward = DistributedDataParallel(self.model, gradient_as_bucket_view=True)
        self.data = [torch.from_numpy(array) for array in self.case.data(options["num_batches"])]
        self.first, self.rows = rank * (self.case.batch_size // size), self.case.batch_size // size
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

        first = batch * self.case.batch_size + self.first
        x, y = (tensor[first : first + self.rows].to(self.device, non_blocking=True) for tensor in self.data)
        self.model.zero_grad()
        self.loss(y, self.forward(x, training=True)).backward()
        weights = self.model.trainable_weights
        with torch.no_grad():
            self.optimizer.apply([weight.value.grad for weight in weights], weights)


def main() -> None:
    options = json.loads(sys.argv[1])
    if options["core"] is not None:
        os.sched_setaffinity(0, {options["core"]})
    loop = _Loop(options)
    for command in sys.stdin:
        dropped, steps = map(int, command.split())
        print(loop.run(dropped, steps), flush=True)


if __name__ == "__main__":
    main()
