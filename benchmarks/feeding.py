"""Feeding from a slow source: a step should take as long as the slower of the two, not as long as both.

    python benchmarks/feeding.py [--quick] [--backends jax,torch] [--devices 1,2,4] [--rates 0.1,0.5,1,1.5]

The source sleeps `rate` times the step's own time for each batch. In each process abreast and plain Keras (on one device)
take turns. The figure is seconds per step over max(source, step); plain Keras needs the sum of both where it reads between
steps. The step's own time is measured by fits without the delay, directly before and after: within a minute, a machine drifts
by more than the figure may differ from 1.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import cells
import lines

_SIDES = ("abreast", "keras")
_DROPPED = 4
_NUM_BATCHES = 8
_ENVIRONMENT = lines.STEADY_HEAP | {"TF_CPP_MIN_LOG_LEVEL": "3"}


def main() -> None:
    arguments = _arguments()
    if arguments.cell:
        print(json.dumps(measure(json.loads(arguments.cell))))
        return
    for backend in arguments.backends:
        for num_devices in arguments.devices:
            cell = {"backend": backend, "devices": num_devices, "rates": arguments.rates}
            cell |= {"model": arguments.model, "steps": arguments.steps, "rounds": arguments.rounds}
            _report(cell, _in_a_process(cell))


def _in_a_process(cell: dict[str, Any]) -> Any:
    return cells.in_a_process(__file__, cell, _ENVIRONMENT | {"KERAS_BACKEND": cell["backend"]})


def measure(cell: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """By side: the seconds of a step on its own, and by rate the seconds per step over those of the slower of the two."""
    import cases

    import abreast

    if not cell.get("gpu"):
        abreast.use_cpu_devices(cell["devices"])
    module: Any = importlib.import_module(f"abreast.bench.native_{cell['backend']}")
    case = cases.case(cell["model"])
    models = {"abreast": abreast.parallelize(case.compiled(), cell["devices"]), "keras": case.compiled()}
    found: dict[str, dict[str, list[float]]] = {side: {} for side in _SIDES}
    fits = {
        side: partial(_fit, model, case, cell["steps"], partial(module.wait_for, model))
        for side, model in models.items()
    }
    for fit in fits.values():
        fit(0.0)  # compiles
    for _ in range(cell["rounds"]):
        for side, fit in fits.items():
            before, _ = fit(0.0)
            for rate in cell["rates"]:
                seconds, source = fit(rate * before)
                after, _ = fit(0.0)
                found[side].setdefault("step", []).append(after)
                found[side].setdefault(str(rate), []).append(seconds / max(source, (before + after) / 2))
                before = after
    return found


def _fit(model: Any, case: Any, steps: int, wait: Callable[[], None], delay: float) -> tuple[float, float]:
    """Seconds per step of a fit whose source sleeps `delay` seconds per batch, and the seconds that the source took per batch."""
    from abreast.bench import clock

    source = _Source(case, delay)
    arguments = {"x": source.batches(), "steps_per_epoch": _DROPPED + steps + 1}
    return clock.seconds_per_step(model, arguments, _DROPPED, steps, wait), source.seconds


class _Source:
    def __init__(self, case: Any, delay: float) -> None:
        self.x, self.y = case.data(_NUM_BATCHES)
        self.rows = case.batch_size
        self.delay = delay
        self.spent: list[float] = []

    @property
    def seconds(self) -> float:
        return statistics.mean(self.spent[_DROPPED:])

    def batches(self) -> Iterator[Any]:
        index = 0
        while True:
            start = time.perf_counter()
            if self.delay:
                time.sleep(self.delay)
            rows = slice(index * self.rows, (index + 1) * self.rows)
            index = (index + 1) % _NUM_BATCHES
            self.spent.append(time.perf_counter() - start)
            yield self.x[rows], self.y[rows]


def _report(cell: dict[str, Any], found: dict[str, dict[str, list[float]]]) -> None:
    step = statistics.median(found["abreast"]["step"])
    print(f"{cell['backend']:<11}{cell['devices']} device(s), step {1000 * step:.1f} ms", flush=True)
    for rate in cell["rates"]:
        middle = {}
        for side in _SIDES:
            devices = cell["devices"] if side == "abreast" else 1
            case = {"backend": cell["backend"], "model": cell["model"], "rate": rate, "side": side}
            case |= {"devices": devices, "run_of_devices": cell["devices"]}
            values = found[side][str(rate)]
            notes = {
                "step_seconds": round(statistics.median(found[side]["step"]), 6),
                "steps_per_sample": cell["steps"],
                "warm_up": f"a first fit, and the first {_DROPPED} steps of each",
            }
            lines.append([lines.line("feeding", case, values, "seconds per step / max(source, step)", **notes)])
            middle[side] = statistics.median(values)
        words = "  ".join(f"{side} {value:.3f}" for side, value in middle.items())
        print(f"  source {rate:4.2f} of a step: {words}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", type=lambda text: text.split(","), default=("jax", "tensorflow", "torch"))
    parser.add_argument("--devices", type=lambda text: [int(part) for part in text.split(",")], default=(1, 2, 4))
    rates = (0.1, 0.5, 0.9, 1.0, 1.1, 1.5)
    parser.add_argument("--rates", type=lambda text: [float(part) for part in text.split(",")], default=rates)
    parser.add_argument("--model", default="convnet")
    parser.add_argument("--steps", type=int, help="timed steps of one fit")
    parser.add_argument("--rounds", type=int, help="fits of each side at each rate")
    parser.add_argument("--quick", action="store_true", help="few and short fits, for a first look")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.steps = arguments.steps or (10 if arguments.quick else 20)
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    return arguments


if __name__ == "__main__":
    main()
