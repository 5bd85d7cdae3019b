"""What `abreast.Timeline` adds to a step of about 5 ms: `fit` with and without it, in turns, in the same process.

    python benchmarks/timeline_cost.py [--quick] [--backends jax,torch] [--devices 1,2] [--rounds 40]

Each cell (backend, devices) is a fresh process. It widens the batch until a step takes 5 ms, then fits with and without a
timeline in turns (A B B A ...). A turn drops its first steps and waits for the device before and after the timed ones; a
sample is the mean of a turn's steps. `ratio` is that of the medians; `ratio_quartiles` are those of the pairs of turns.
The floor is a ratio of at most 1.01. The timeline writes JSON lines and samples the CPU, as a user's does.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import lines

_BACKENDS = ("jax", "tensorflow", "torch")
_STEP_SECONDS = 0.005
_FLOOR = 1.01
_STEPS = 40  # of one turn
_DROPPED = 5
_CELL_SECONDS = 500


def main() -> None:
    arguments = _arguments()
    if arguments.cell:
        print(json.dumps(measure(json.loads(arguments.cell))))
        return
    for backend in arguments.backends:
        for num_devices in arguments.devices:
            cell = {"backend": backend, "devices": num_devices, "gpu": arguments.gpu, "rounds": arguments.rounds}
            _report(cell, _in_fresh_process(cell))


def measure(cell: dict[str, Any]) -> dict[str, Any]:
    """Seconds per step by side, one sample per round, and the rows of a batch. Runs in the cell's own process."""
    import numpy as np

    import abreast

    if not cell["gpu"]:
        abreast.use_cpu_devices(cell["devices"])
    model = abreast.parallelize(_model(), cell["devices"])
    draws = np.random.default_rng(0)
    rows = 64 * cell["devices"]

    def turn(rows: int, callbacks: list[Any]) -> float:
        num_rows = rows * (_STEPS + _DROPPED + 1)
        x = draws.standard_normal((num_rows, 256), dtype=np.float32)
        return _seconds_per_step(cell["backend"], model, (x, x[:, :10]), rows, callbacks)

    for _ in range(4):  # the first one compiles
        rows = max(cell["devices"], round(rows * min(4.0, _STEP_SECONDS / turn(rows, []))))
        turn(rows, [])
    samples: dict[str, Any] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(cell["rounds"]):
            sides = ("without", "with") if number % 2 else ("with", "without")
            for side in sides:
                callbacks = [abreast.Timeline(f"{folder}/run.jsonl")] if side == "with" else []
                samples[side].append(turn(rows, callbacks))
    return samples | {"rows": rows}


def _model() -> Any:
    import keras

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(512, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((256,)), *layers, keras.layers.Dense(10)])
    model.compile("sgd", "mse")
    return model


def _seconds_per_step(backend: str, model: Any, data: tuple[Any, Any], rows: int, callbacks: list[Any]) -> float:
    import cases

    native = importlib.import_module(f"native_{backend}")
    clock = cases.Clock(_DROPPED, _DROPPED + _STEPS, lambda: native.wait_for(model))
    model.fit(*data, batch_size=rows, shuffle=False, verbose=0, callbacks=[clock, *callbacks])
    return float(clock.end_seconds - clock.start_seconds) / _STEPS


def _in_fresh_process(cell: dict[str, Any]) -> dict[str, Any]:
    environment = os.environ | lines.STEADY_HEAP | {"KERAS_BACKEND": cell["backend"], "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, __file__, "--cell", json.dumps(cell)]
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, timeout=_CELL_SECONDS, check=True
    )
    samples: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return samples


def _report(cell: dict[str, Any], samples: dict[str, Any]) -> None:
    with_timeline, without = samples["with"], samples["without"]
    ratio = statistics.median(with_timeline) / statistics.median(without)
    low, high = lines.quartiles([one / other for one, other in zip(with_timeline, without, strict=True)])
    notes = {
        "rows": samples["rows"],
        "steps_per_sample": _STEPS,
        "warm_up": f"eight turns, and the first {_DROPPED} steps of each turn",
    }
    place = {"backend": cell["backend"], "devices": cell["devices"], "gpu": cell["gpu"]}
    ratios = {"ratio": round(ratio, 4), "ratio_quartiles": [round(low, 4), round(high, 4)]}
    lines.append(
        [
            lines.line("timeline_cost", place | {"side": "without"}, without, "seconds per step", **notes),
            lines.line("timeline_cost", place | {"side": "with"}, with_timeline, "seconds per step", **notes, **ratios),
        ]
    )
    verdict = "" if ratio <= _FLOOR else f"  above the floor of {_FLOOR}"
    print(
        f"{cell['backend']:<11}{cell['devices']} device(s)  {1000 * statistics.median(without):6.2f} ms"
        f"  {ratio:.4f}x (pairs {low:.4f} to {high:.4f}){verdict}",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", type=lambda text: text.split(","), default=_BACKENDS)
    parser.add_argument("--devices", type=lambda text: [int(part) for part in text.split(",")], default=(1,))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="few rounds, for a first look")
    parser.add_argument("--gpu", action="store_true", help="on GPUs instead of simulated devices")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (8 if arguments.quick else 40)
    return arguments


if __name__ == "__main__":
    main()
