"""Scaling on two real cores: one device on one core against two devices on one core each, the same rows per device.

    python benchmarks/two_cores.py [--quick] [--backends jax,torch] [--model convnet] [--rows 32]

Kernels are single-threaded. Native loops and abreast take turns, each in its own processes, which are pinned to their cores;
the others wait. Efficiency is the time of a step on one device over that on two; perfect is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import lines

_SIDES = ("native", "abreast")
_DEVICES = (1, 2)
_DROPPED = 3
_ENVIRONMENT = lines.STEADY_HEAP | {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


def main() -> None:
    arguments = _arguments()
    if arguments.cell:
        _serve(json.loads(arguments.cell))
        return
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit(
            "two_cores: this process may use one core only\nhint: give it two, with taskset or the container's settings"
        )
    for backend in arguments.backends:
        samples = _measure(backend, arguments)
        _report(backend, arguments, samples)


def _measure(backend: str, arguments: argparse.Namespace) -> dict[tuple[str, int], list[float]]:
    with contextlib.ExitStack() as stack:
        turns: dict[tuple[str, int], Callable[[], float]] = {}
        for side in _SIDES:
            for num_devices in _DEVICES:
                cell = {"backend": backend, "side": side, "devices": num_devices, "steps": arguments.steps}
                turn = _Turn(cell | {"model": arguments.model, "rows": arguments.rows})
                stack.callback(turn.close)
                turn.run()  # compiles, and pins threads to their cores
                turns[side, num_devices] = turn.run
        samples: dict[tuple[str, int], list[float]] = {key: [] for key in turns}
        for _ in range(arguments.rounds):
            for key, run in turns.items():
                samples[key].append(run())
    return samples


class _Turn:
    """A process that trains on request, and waits otherwise."""

    def __init__(self, cell: dict[str, Any]) -> None:
        environment = os.environ | _ENVIRONMENT | {"KERAS_BACKEND": cell["backend"]}
        command = [sys.executable, __file__, "--cell", json.dumps(cell)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self) -> float:
        """Seconds per step."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("run\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=60)


def _serve(cell: dict[str, Any]) -> None:
    """The process of one side on one number of devices."""
    num_devices = cell["devices"]
    cores = sorted(os.sched_getaffinity(0))[:num_devices]
    os.sched_setaffinity(0, cores)
    run, close = _native(cell, cores) if cell["side"] == "native" else _abreast(cell, cores)
    for _ in sys.stdin:
        print(run(), flush=True)
    close()


def _native(cell: dict[str, Any], cores: list[int]) -> tuple[Callable[[], float], Callable[[], None]]:
    import cases

    _simulate(cell)
    module: Any = importlib.import_module(f"abreast.bench.native_{cell['backend']}")
    case = cases.case(cell["model"], cell["rows"] * cell["devices"])
    data = case.data(_DROPPED + cell["steps"] + 1)
    pinned = {"cores": cores} if cell["backend"] == "torch" else {}
    native = module.Native(case, cell["devices"], data, **pinned)
    return lambda: native.run(_DROPPED, cell["steps"]), native.close


def _abreast(cell: dict[str, Any], cores: list[int]) -> tuple[Callable[[], float], Callable[[], None]]:
    import cases

    import abreast

    _simulate(cell)
    module: Any = importlib.import_module(f"abreast.bench.native_{cell['backend']}")
    case = cases.case(cell["model"], cell["rows"] * cell["devices"])
    data = case.data(_DROPPED + cell["steps"] + 1)
    local: Any = "global" if cell["backend"] == "jax" else "local"  # like the native loop
    model = abreast.parallelize(case.compiled(), cell["devices"], batch_norm=local)

    def run() -> float:
        seconds = cases.seconds_per_step(model, data, case.batch_size, _DROPPED, lambda: module.wait_for(model))
        if cell["backend"] == "torch":
            _pin(cores)
        return seconds

    return run, lambda: None


def _simulate(cell: dict[str, Any]) -> None:
    import abreast

    if cell["backend"] == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(cell["devices"])
    abreast.use_cpu_devices(cell["devices"])


def _pin(cores: list[int]) -> None:
    """Keep this process and abreast's worker, with all their threads, on one core each."""
    import psutil

    processes = [psutil.Process(), *psutil.Process().children()]
    for process, core in zip(processes, cores, strict=False):
        for thread in process.threads():
            os.sched_setaffinity(thread.id, {core})


def _report(backend: str, arguments: argparse.Namespace, samples: dict[tuple[str, int], list[float]]) -> None:
    medians = {key: statistics.median(values) for key, values in samples.items()}
    efficiency = {side: medians[side, 1] / medians[side, 2] for side in _SIDES}
    for (side, num_devices), values in samples.items():
        case = {"backend": backend, "model": arguments.model, "devices": num_devices, "side": side}
        notes: dict[str, Any] = {"rows_per_device": arguments.rows, "steps_per_sample": arguments.steps}
        if num_devices == 2:
            notes["efficiency"] = round(efficiency[side], 4)
        warm_up = f"the first turn, and the first {_DROPPED} steps of each turn"
        lines.append([lines.line("two_cores", case, values, "seconds per step", **notes, warm_up=warm_up)])
    print(
        f"{backend:<11}{arguments.model:<9} one device {1000 * medians['native', 1]:7.1f} ms"
        f"   efficiency: native {efficiency['native']:.3f}  abreast {efficiency['abreast']:.3f}"
        f"   abreast / native {efficiency['abreast'] / efficiency['native']:.3f}",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", type=lambda text: text.split(","), default=("jax", "tensorflow", "torch"))
    parser.add_argument("--model", default="convnet")
    parser.add_argument("--rows", type=int, default=64, help="rows per device")
    parser.add_argument("--steps", type=int, help="timed steps of one turn")
    parser.add_argument("--rounds", type=int, help="turns of each side")
    parser.add_argument("--quick", action="store_true", help="few and short turns, for a first look")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.steps = arguments.steps or (5 if arguments.quick else 15)
    arguments.rounds = arguments.rounds or (3 if arguments.quick else 9)
    return arguments


if __name__ == "__main__":
    main()
