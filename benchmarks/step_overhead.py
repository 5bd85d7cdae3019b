"""Overhead of abreast per step: `fit` with abreast beside a hand-written loop on the same devices, in the same run.

    python benchmarks/step_overhead.py [--quick] [--backends jax,torch] [--models mlp] [--devices 1,2,4] [--steps 50]

Each cell (backend, model, devices) is one fresh process. In it, all sides take turns for some rounds (A B C A B C ...): the
native loop (described in `abreast/bench/native_*.py`), abreast, and Keras's own way to several devices
if it has one. Each feeds host arrays, the same global batches in the same order. A turn drops its first steps and waits for
the device before and after the timed ones; a sample is the mean of a turn's steps; the ratio is that of the medians.

On PyTorch and TensorFlow the native loops normalize over each device's rows, and so does abreast here
(`batch_norm="local"`); on JAX all sides normalize over the global batch.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
from collections.abc import Callable
from typing import Any

import cells
import lines

_BACKENDS = ("jax", "tensorflow", "torch")
_MODELS = ("mlp", "convnet", "resnet50")
_STEPS = {"mlp": 300, "convnet": 10, "resnet50": 2}  # of one turn
_QUICK_STEPS = {"mlp": 250, "convnet": 4, "resnet50": 1}
_CELL_SECONDS = 400


def main() -> None:
    arguments = _arguments()
    if arguments.cell:
        print(json.dumps(measure(json.loads(arguments.cell))))
        return
    ratios = []
    for backend in arguments.backends:
        for model in arguments.models:
            for num_devices in arguments.devices:
                cell = {"backend": backend, "model": model, "devices": num_devices, "gpu": arguments.gpu}
                cell |= {"rounds": arguments.rounds or (3 if arguments.quick else 7)}
                cell |= {"steps": arguments.steps or (_QUICK_STEPS if arguments.quick else _STEPS)[model]}
                ratios.append(_report(cell, _in_fresh_process(cell)))
    print(_table(ratios))


def measure(cell: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds per step of each side, one sample per round. Runs in the cell's own process."""
    import abreast

    if not cell["gpu"]:
        abreast.use_cpu_devices(cell["devices"])
    sides, close = _sides(cell)
    for run in sides.values():
        run()  # compiles
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(cell["rounds"]):
        for name, run in sides.items():
            samples[name].append(run())
    close()
    return samples


def _sides(cell: dict[str, Any]) -> tuple[dict[str, Callable[[], float]], Callable[[], None]]:
    """The sides that take turns, each a call that returns seconds per step; and the function that ends them."""
    import cases

    import abreast

    native_module = importlib.import_module(f"abreast.bench.native_{cell['backend']}")
    case, num_devices, steps = cases.case(cell["model"]), cell["devices"], cell["steps"]
    dropped = _dropped(steps)
    data = case.data(dropped + steps + 1)
    native = native_module.Native(case, num_devices, data)

    def fit(model: Any) -> float:
        wait = lambda: native_module.wait_for(model)  # noqa: E731
        return cases.seconds_per_step(model, data, case.batch_size, dropped, wait)

    parallel = abreast.parallelize(case.compiled(), num_devices, batch_norm=_batch_norm(cell["backend"]))
    sides = {"native": lambda: native.run(dropped, steps), "abreast": lambda: fit(parallel)}
    scope = native_module.plain_scope(num_devices)
    if scope is not None:
        with scope():
            plain = case.compiled()

        def fit_plain() -> float:
            with scope():
                return fit(plain)

        sides["keras"] = fit_plain
    return sides, native.close


def _batch_norm(backend: str) -> Any:
    return "global" if backend == "jax" else "local"


def _dropped(steps: int) -> int:
    return max(2, steps // 5)  # of the shortest steps 50: so many decide whether threads read (`feed/pace.py`)


def _in_fresh_process(cell: dict[str, Any]) -> dict[str, list[float]]:
    environment = lines.STEADY_HEAP | {"KERAS_BACKEND": cell["backend"], "TF_CPP_MIN_LOG_LEVEL": "3"}
    samples: dict[str, list[float]] = cells.in_a_process(__file__, cell, environment, _CELL_SECONDS)
    return samples


def _report(cell: dict[str, Any], samples: dict[str, list[float]]) -> dict[str, Any]:
    """Append the cell's lines; return its row of the table."""
    native = statistics.median(samples["native"])
    ratios = {name: statistics.median(values) / native for name, values in samples.items() if name != "native"}
    place = {"backend": cell["backend"], "model": cell["model"], "devices": cell["devices"], "gpu": cell["gpu"]}
    lines.append(
        [
            lines.line(
                "step_overhead",
                place | {"side": name},
                values,
                "seconds per step",
                steps_per_sample=cell["steps"],
                warm_up=f"the first turn, and the first {_dropped(cell['steps'])} steps of each turn",
                **({"ratio_to_native": round(ratios[name], 4)} if name in ratios else {}),
            )
            for name, values in samples.items()
        ]
    )
    row = place | {"native_ms": 1000 * native} | ratios
    print(_row(row), file=sys.stderr, flush=True)
    return row


def _table(rows: list[dict[str, Any]]) -> str:
    head = f"{'backend':<11}{'model':<9}{'devices':>7}{'native':>11}{'abreast':>9}{'keras':>8}"
    return "\n".join([head, *map(_row, rows)])


def _row(row: dict[str, Any]) -> str:
    keras = f"{row['keras']:7.2f}x" if "keras" in row else f"{'-':>8}"
    place = f"{row['backend']:<11}{row['model']:<9}{row['devices']:>7}"
    return f"{place}{row['native_ms']:>8.2f} ms{row['abreast']:>8.2f}x{keras}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backends", type=_names, default=_BACKENDS)
    parser.add_argument("--models", type=_names, default=_MODELS)
    parser.add_argument("--devices", type=lambda text: [int(part) for part in text.split(",")], default=(1, 2, 4))
    parser.add_argument("--steps", type=int, help="timed steps of one turn")
    parser.add_argument("--rounds", type=int, help="turns of each side")
    parser.add_argument("--quick", action="store_true", help="few and short turns, for a first look")
    parser.add_argument("--gpu", action="store_true", help="real devices instead of simulated ones")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    return parser.parse_args()


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
