"""What checkpoints cost: seconds that the training waits for one, beside Keras's own, and the steps between two of them.

    python benchmarks/checkpoint_cost.py [--backends jax,torch] [--millions 25,350] [--devices 1,2] [--samples 5] [--turns 40]
                                         [--only save,steps]

Each cell is a fresh process. `save`: a stack of dense layers with Adam, of so many million parameters, on one device. One `fit`
saves after each step by `abreast.Checkpoint`; a sample is the time that it keeps the training thread after the device has
finished the step. The first one takes longer, as its memory is new: `first_seconds`. `write` is the time of the thread that
writes it. That is waited for before the next one: with one checkpoint a minute it has ended long before. Then, in the same
process, the same for `keras.callbacks.BackupAndRestore`, and for `model.save`. `restore` is the time to find, read, check and
set the state in a new `fit`.

`steps`: a tiny MLP, trained in turns of a `fit` without and one with a checkpoint that is never due; a sample is the mean step of
a turn. `ratio` is the median of each turn with one divided by the mean of the turns before and after; `control` is that of the
turns without one. `added_cpu` is the same for CPU time of the training thread, in seconds per step, as a difference: other work
on the machine changes that less.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import itertools
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cells
import lines

_BACKENDS = ("jax", "tensorflow", "torch")
_WIDTHS = {25: (1024, 24), 350: (4096, 21)}  # width and number of layers, by million parameters
_WAYS = ("abreast", "BackupAndRestore", "model.save", "write", "restore")
_STEPS = 200  # of a turn
_DROPPED = 20
_CELL_SECONDS = 1800


def main() -> None:
    arguments = _arguments()
    if arguments.cell:
        cell = json.loads(arguments.cell)
        print(json.dumps(save(cell) if cell["what"] == "save" else steps(cell)))
        return
    for backend in arguments.backends:
        if "save" in arguments.only:
            for millions in arguments.millions:
                _report_save(backend, millions, arguments.samples)
        if "steps" in arguments.only:
            for devices in arguments.devices:
                _report_steps(backend, devices, arguments.turns)


def _report_save(backend: str, millions: float, samples: int) -> None:
    cell = {"what": "save", "backend": backend, "devices": 1, "millions": millions, "samples": samples, "gpu": False}
    found = cells.in_a_process(__file__, cell, {"KERAS_BACKEND": backend}, _CELL_SECONDS)
    case = {"backend": backend, "millions": millions, "devices": 1}
    warm_up = {"restore": "none"}
    notes = {name: found[name] for name in ("bytes", "parameters", "load", "first_seconds")}
    lines.append(
        [
            lines.line(
                "checkpoint_cost",
                case | {"way": way},
                found[way],
                "s",
                warm_up=warm_up.get(way, "the first save"),
                **notes,
            )
            for way in _WAYS
        ]
    )
    medians = {way: statistics.median(found[way]) for way in _WAYS}
    words = ", ".join(f"{way} {seconds:.3f} s" for way, seconds in medians.items())
    print(f"{backend}, {millions:g} million: {words}; {medians['abreast'] / 60:.2%} of a minute", flush=True)


def _report_steps(backend: str, devices: int, turns: int) -> None:
    cell = {"what": "steps", "backend": backend, "devices": devices, "turns": turns, "gpu": False}
    found = cells.in_a_process(__file__, cell, {"KERAS_BACKEND": backend}, _CELL_SECONDS)
    without, with_one = found["without"], found["with"]
    ratio, control, added = (ratios(found)[name] for name in ("ratio", "control", "added_cpu"))
    case = {"backend": backend, "devices": devices}
    warm_up = f"the first turn of each, {_DROPPED} steps of a turn"
    notes = {"warm_up": warm_up, "steps_per_sample": _STEPS - _DROPPED, "load": found["load"]}
    lines.append(
        [
            lines.line("checkpoint_cost", case | {"way": "steps without"}, without, "seconds per step", **notes),
            lines.line(
                "checkpoint_cost",
                case | {"way": "steps with"},
                with_one,
                "seconds per step",
                ratio=round(ratio, 4),
                control=round(control, 4),
                added_cpu=round(added, 7),
                **notes,
            ),
        ]
    )
    print(
        f"{backend}, {devices} devices, between checkpoints: ratio {ratio:.4f}, control {control:.4f}, {1e6 * added:.1f} us",
        flush=True,
    )


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """Of the samples of `steps`: `ratio`, `control` and `added_cpu`."""
    without = found["without"]
    return {
        "ratio": statistics.median(each / around for each, around in _pairs(found["with"], without)),
        "control": statistics.median(after / before for before, after in itertools.pairwise(without)),
        "added_cpu": statistics.median(
            each - around for each, around in _pairs(found["with, CPU"], found["without, CPU"])
        ),
    }


def _pairs(turns: list[float], others: list[float]) -> list[tuple[float, float]]:
    """Each turn, and the mean of the other turns before and after it."""
    return [(each, (one + two) / 2) for each, one, two in zip(turns, others, others[1:], strict=False)]


def save(cell: dict[str, Any]) -> dict[str, Any]:
    """Seconds of each way to save; bytes of a checkpoint. Runs in the cell's process."""
    import keras
    import numpy as np

    import abreast
    from abreast.checkpoints import which_fit
    from abreast.checkpoints.fit import KeptFit
    from abreast.checkpoints.moment import RunningFit
    from abreast.checkpoints.writer import Writer

    if not cell["gpu"]:
        abreast.use_cpu_devices(cell["devices"])
    model: Any = _model(cell["millions"])
    x = np.zeros((8, model.input_shape[1]), "float32")
    number = cell["samples"] + 2

    def fit(*callbacks: Any) -> None:
        model.fit(_batches(x, number), shuffle=False, verbose=0, callbacks=[*callbacks])

    found: dict[str, Any] = {"parameters": model.count_params(), "load": _load()}
    with tempfile.TemporaryDirectory() as folder:
        with _timed(KeptFit, "_take_if_due") as seconds, _timed(Writer, "_written") as written:
            fit(abreast.Checkpoint(f"{folder}/own", every=1, keep=1), _waiting())
        found["abreast"], found["write"] = seconds[1:], written[1:-1]  # the last one is that of the end
        found["first_seconds"] = seconds[0]
        newest = sorted(Path(folder, "own").glob("fit*"))[-1]
        found["bytes"] = sum(file.stat().st_size for file in newest.iterdir())
        which_fit.as_in_a_new_process()
        model = None  # there may be no room for two
        gc.collect()
        model = _model(cell["millions"])  # as a new process makes it
        with _timed(which_fit, "newest_good") as read, _timed(RunningFit, "write") as written:
            fit(abreast.Checkpoint(f"{folder}/own", every=10**6), _waiting())
        found["restore"] = [sum(read) + sum(written)]
        backup = keras.callbacks.BackupAndRestore(f"{folder}/backup", save_freq=1, delete_checkpoint=False)
        with _timed(backup, "_save_model") as seconds:
            fit(backup)
        found["BackupAndRestore"] = seconds[1:]
        found["model.save"] = [_seconds(lambda: model.save(f"{folder}/model.keras")) for _ in range(number)][1:]
    return found


def steps(cell: dict[str, Any]) -> dict[str, Any]:
    """The mean step of each turn. Runs in the cell's process."""
    import cases

    import abreast
    from abreast.bench import clock

    if not cell["gpu"]:
        abreast.use_cpu_devices(cell["devices"])
    case = cases.case("mlp")
    model = abreast.parallelize(case.compiled(), cell["devices"])
    native = importlib.import_module(f"abreast.bench.native_{cell['backend']}")
    x, y = case.data(_DROPPED + _STEPS + 1)
    arguments = {"x": x, "y": y, "batch_size": case.batch_size, "shuffle": False}
    found: dict[str, Any] = {"without": [], "with": [], "without, CPU": [], "with, CPU": [], "load": _load()}
    cpu: list[float] = []

    def wait() -> None:
        native.wait_for(model)
        cpu.append(time.thread_time())

    with tempfile.TemporaryDirectory() as folder:
        for turn in range(2 * cell["turns"] + 3):
            own = [abreast.Checkpoint(f"{folder}/{turn}", every="100h")] if turn % 2 else []
            seconds = clock.seconds_per_step(model, arguments | {"callbacks": own}, _DROPPED, _STEPS, wait)
            if turn > 1:
                side = "with" if turn % 2 else "without"
                found[side].append(seconds)
                found[f"{side}, CPU"].append((cpu[-1] - cpu[-2]) / _STEPS)
    return found


class _timed:  # noqa: N801  # used as a function
    """Inside, a function is replaced by itself with a clock; the seconds of all its calls."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name, self._plain = owner, name, getattr(owner, name)
        self.seconds: list[float] = []

    def __enter__(self) -> list[float]:
        plain, seconds = self._plain, self.seconds

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            try:
                return plain(*args, **kwargs)
            finally:
                seconds.append(time.perf_counter() - begin)

        setattr(self._owner, self._name, timed)
        return seconds

    def __exit__(self, *error: Any) -> None:
        setattr(self._owner, self._name, self._plain)


def _seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _load() -> float:
    """What else the machine does: its load in the last minute."""
    return round(os.getloadavg()[0], 1)


def _waiting() -> Any:
    """A callback that waits for the step and the writing thread, before the next checkpoint is due."""
    import keras

    class Waiting(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            float((logs or {})["loss"])
            for thread in threading.enumerate():
                if thread.name == "abreast-checkpoint":
                    thread.join()

    return Waiting()


def _model(millions: float) -> Any:
    """Dense layers with so many million parameters, on one device."""
    import keras

    import abreast

    width, num_layers = _WIDTHS.get(millions, (int((millions * 1e6 / 4) ** 0.5), 4))
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(width, activation="relu") for _ in range(num_layers)]
    model = keras.Sequential([keras.Input((width,)), *layers])
    model.compile(keras.optimizers.Adam(1e-3), "mse")
    return abreast.parallelize(model, 1)


def _batches(x: Any, steps: int) -> Any:
    """The same batch at every step."""
    import keras

    class Batches(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
        def __len__(self) -> int:
            return steps

        def __getitem__(self, index: int) -> Any:
            return x, x

    return Batches()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", type=lambda text: text.split(","), default=list(_BACKENDS))
    parser.add_argument("--millions", type=lambda text: [float(each) for each in text.split(",")], default=[25, 350])
    parser.add_argument("--devices", type=lambda text: [int(each) for each in text.split(",")], default=[1, 2])
    parser.add_argument("--samples", type=int, default=5, help="saves of each way")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["save", "steps"])
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
