"""Many short steps from each kind of source: growth of memory, threads, descriptors and processes.

    python benchmarks/soak.py [--steps 100000] [--backend jax,torch] [--source numpy,generator] [--again]

Each cell (backend, source) is one fresh process that trains a tiny model on two simulated devices with staging. After each
epoch of 1,000 steps it counts memory, threads, descriptors and processes, including those of its children. Growth is the slope of
a straight line through the second half of the counts. A cell that has a line of this commit is left out, so that a run may
be stopped (Ctrl-C) and continued; `--again` measures it once more.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import lines

_BACKENDS = ("jax", "tensorflow", "torch")
_DEVICES = 2
_ROWS = 8  # of a global batch
_STEPS_PER_SAMPLE = 1000
_COUNTED = ("memory_bytes", "threads", "descriptors", "processes")
_LIMIT_SECONDS = 0.2  # of a step, on average, before a cell is given up
_END_SECONDS = 15


def main() -> int:
    arguments = _arguments()
    if arguments.cell:
        print(json.dumps(soak(json.loads(arguments.cell))))
        return 0
    failed = False
    try:
        for backend in arguments.backend:
            for source in arguments.source:
                failed |= not _cell({"backend": backend, "source": source, "steps": arguments.steps}, arguments)
    except KeyboardInterrupt:
        print("stopped; the same command continues with the next cell", file=sys.stderr)
        return 130
    return int(failed)


def soak(cell: dict[str, Any]) -> dict[str, Any]:
    """The counts after each epoch, and seconds per step. Runs in the cell's own process."""
    import keras

    import abreast

    every = cell.get("every", _STEPS_PER_SAMPLE)
    abreast.use_cpu_devices(_DEVICES)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    abreast.parallelize(model, _DEVICES)
    counts: dict[str, list[int]] = {name: [] for name in _COUNTED}

    def count(epoch: int, logs: Any) -> None:
        gc.collect()  # garbage is not growth; the collector runs by itself only every few epochs
        for name, value in _count().items():
            counts[name].append(value)

    source = SOURCES[cell["source"]](every)
    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=count)]
    start = time.perf_counter()
    model.fit(**source, epochs=cell["steps"] // every, shuffle=False, verbose=0, callbacks=callbacks)
    return counts | {"seconds_per_step": (time.perf_counter() - start) / cell["steps"]}


def growth(values: list[int]) -> float:
    """The slope of a straight line through the second half of the values, from one value to the next."""
    half = values[len(values) // 2 :]
    return statistics.linear_regression(range(len(half)), half).slope if len(half) > 1 else 0.0


# Sources: arguments of `fit` for epochs of so many steps.


def _arrays(steps: int) -> tuple[Any, Any]:
    import numpy as np

    draws = np.random.default_rng(0)
    return draws.normal(size=(steps * _ROWS, 4)).astype("float32"), draws.normal(size=(steps * _ROWS, 1)).astype(
        "float32"
    )


def _numpy(steps: int) -> dict[str, Any]:
    x, y = _arrays(steps)
    return {"x": x, "y": y, "batch_size": _ROWS}


def _generator(steps: int) -> dict[str, Any]:
    x, y = _arrays(steps)

    def batches() -> Iterator[tuple[Any, Any]]:
        while True:
            for first in range(0, len(x), _ROWS):
                # New arrays each time, as from a generator that reads files.
                yield x[first : first + _ROWS].copy(), y[first : first + _ROWS].copy()

    return {"x": batches(), "steps_per_epoch": steps}


def _py_dataset(**workers: Any) -> Callable[[int], dict[str, Any]]:
    def source(steps: int) -> dict[str, Any]:
        from soak_dataset import Rows

        return {"x": Rows(*_arrays(steps), _ROWS, **workers)}

    return source


def _tf_data(steps: int) -> dict[str, Any]:
    import tensorflow as tf

    return {"x": tf.data.Dataset.from_tensor_slices(_arrays(steps)).batch(_ROWS).prefetch(2)}


def _torch_loader(num_workers: int) -> Callable[[int], dict[str, Any]]:
    def source(steps: int) -> dict[str, Any]:
        import torch

        rows = torch.utils.data.TensorDataset(*map(torch.as_tensor, _arrays(steps)))
        # Not `fork`: frameworks have started threads already.
        context = "forkserver" if num_workers else None
        loader = torch.utils.data.DataLoader(
            rows, _ROWS, num_workers=num_workers, multiprocessing_context=context, persistent_workers=num_workers > 0
        )
        return {"x": loader}

    return source


def _grain(steps: int) -> dict[str, Any]:
    import grain

    x, y = _arrays(steps)
    return {"x": grain.MapDataset.source(range(len(x))).map(lambda index: (x[index], y[index])).batch(_ROWS)}


SOURCES: dict[str, Callable[[int], dict[str, Any]]] = {
    "numpy": _numpy,
    "generator": _generator,
    "py_dataset": _py_dataset(),
    "py_dataset_threads": _py_dataset(workers=3),
    "py_dataset_processes": _py_dataset(workers=2, use_multiprocessing=True),
    "tf_data": _tf_data,
    "torch_loader": _torch_loader(0),
    "torch_loader_processes": _torch_loader(2),
    "grain": _grain,
}


def _count() -> dict[str, int]:
    """The counts of this process and all of its children together; memory is resident memory."""
    import psutil

    totals = dict.fromkeys(_COUNTED, 0)
    ours = psutil.Process()
    for process in [ours, *ours.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
            totals["memory_bytes"] += process.memory_info().rss
            totals["threads"] += process.num_threads()
            totals["descriptors"] += process.num_fds()
            totals["processes"] += 1
    return totals


def _cell(cell: dict[str, Any], arguments: argparse.Namespace) -> bool:
    """Whether a cell is measured, now or before."""
    case = cell | {"devices": _DEVICES, "rows": _ROWS}
    known = [one for one in lines.read("soak") if one["case"] == case and one["commit"] == lines.commit()]
    if known and not arguments.again:
        print(f"{_named(cell)}: has a line of {lines.commit()}", file=sys.stderr)
        return True
    try:
        counts = _in_fresh_process(cell)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{_named(cell)}: no result: {error}", file=sys.stderr)
        return False
    seconds = counts.pop("seconds_per_step")
    half = counts["memory_bytes"][len(counts["memory_bytes"]) // 2 :]
    slopes = {name: round(growth(values), 3) for name, values in counts.items()}
    notes = {
        "growth_per_1000_steps": slopes,
        "most": {name: max(values) for name, values in counts.items()},
        "last": {name: values[-1] for name, values in counts.items()},
        "seconds_per_step": round(seconds, 6),
        "steps_per_sample": _STEPS_PER_SAMPLE,
        "warm_up": "the first half of the steps",
    }
    lines.append([lines.line("soak", case, half, "resident bytes", **notes)])
    words = f"{slopes['memory_bytes'] / 2**10:+.1f} KiB, {slopes['threads']:+.3f} threads, {slopes['descriptors']:+.3f}"
    words += f" descriptors per 1,000 steps; {1000 * seconds:.2f} ms a step"
    print(f"{_named(cell)}: {words}", file=sys.stderr, flush=True)
    return True


def _in_fresh_process(cell: dict[str, Any]) -> dict[str, Any]:
    environment = os.environ | {"KERAS_BACKEND": cell["backend"], "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--cell", json.dumps(cell)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        output, _ = process.communicate(timeout=60 + _LIMIT_SECONDS * cell["steps"])
    except BaseException:  # Ctrl-C reaches the cell too; a cell that does not end by itself is ended here
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    counts: dict[str, Any] = json.loads(output.splitlines()[-1])
    return counts


def _named(cell: dict[str, Any]) -> str:
    return f"{cell['backend']:<11}{cell['source']:<23}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000, help="a multiple of 1,000")
    parser.add_argument("--backend", type=_among(_BACKENDS), default=_BACKENDS, help="names, separated by commas")
    parser.add_argument("--source", type=_among(tuple(SOURCES)), default=tuple(SOURCES), help=", ".join(SOURCES))
    parser.add_argument("--again", action="store_true", help="also measure cells that have a line of this commit")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.steps < 2 * _STEPS_PER_SAMPLE or arguments.steps % _STEPS_PER_SAMPLE:
        parser.error(
            f"--steps {arguments.steps}: give a multiple of {_STEPS_PER_SAMPLE}, at least {2 * _STEPS_PER_SAMPLE}"
        )
    return arguments


def _among(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        asked = text.split(",")
        if unknown := [name for name in asked if name not in names]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(names)}")
        return asked

    return parse


if __name__ == "__main__":
    sys.exit(main())
