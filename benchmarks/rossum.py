"""Rossum's tables of Keras on two machines of 2017, beside predictions for the same trainings, and for abreast there.

    python benchmarks/rossum.py --measurements measurements_open.csv --machines machines.csv

The measured rates are cited. Everything else is predicted, for each machine with constants that were fitted without it. Appends
lines to `results/rossum.jsonl`, from which `plan_page.py` makes tables and figures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import lines
import numpy as np
from published_model import breakdown
from scaling_rows import ScalingRow, read_cases

from abreast.bench.report import alone
from abreast.errors import AbreastError, DataError
from abreast.page.figures import Curve, curves_figure
from abreast.plan.constants import Constants
from abreast.plan.interval import interval
from abreast.plan.machine import find_machine
from abreast.plan.models import find_model
from abreast.plan.predict import Prediction, predict
from abreast.plan.roofline import StepTime
from abreast.plan.scenario import Scenarios
from abreast.plan.setup import Setup
from abreast.units import count

# The machines' names in the rows, and of those that ship. Rossum used several GPUs in two ways; this is the one with up to six.
MACHINES = {"rossum-7gforce": "rossum-7gforce", "rossum-az-2x-m60": "azure-nv12-m60"}
_FRAMEWORK = "avolkov1 make_parallel"
_ROWS = 32  # of the global batch, on any number of GPUs
_PIXELS = {"inception3": 299, "resnet50": 224}
_SERVERS = {"ps-cpu": "in host memory", "ps-gpu": "on a GPU"}
Lines = Sequence[dict[str, Any]]


def predicted(cases: Sequence[ScalingRow]) -> Iterator[dict[str, Any]]:
    """A line for each of Rossum's rows: the cited rate, and both predictions."""
    from plan_fit import Fit

    fit = Fit(cases)
    missing = [machine for machine in MACHINES if machine not in fit.machines]
    if missing:
        raise DataError(f"no row is of {missing[0]}", "give a file with the rows of Rossum's keras-multi-gpu")
    all_rows = fit.solve(np.ones(len(fit.measured), bool))
    for machine in MACHINES:
        constants = fit.constants(fit.solve(fit.machine != fit.machines.index(machine), all_rows))
        for case in fit.cases:
            if case.row["machine"] == machine and _FRAMEWORK in case.row["framework"] and case.row["model"] in _PIXELS:
                yield _line(case, constants)


def _line(case: ScalingRow, constants: Constants) -> dict[str, Any]:
    row, devices = case.row, int(case.row["n_gpus"])
    assert case.scenario is not None
    many = Scenarios([case.scenario])
    middle = float(breakdown(many, constants).efficiency[0])
    low, high = (float(each) for each in interval(middle, bool(case.assumed), constants.interval))
    linear = case.linear * case.baseline_rate
    return {
        "benchmark": "rossum",
        "case": {
            "machine": row["machine"],
            "model": row["model"],
            "exchange": case.scenario.exchange,
            "devices": devices,
            "rows": _ROWS,
        },
        "unit": "images/s",
        "cited": case.measured,
        "cited_on_one": case.baseline_rate,
        "source": f"{row['source']}, {row['source_url_or_repo_path']}",
        "predicted_keras": _rounded(linear * middle, linear * low, linear * high),
        "predicted_abreast": _abreast(
            row["machine"], row["model"], devices, case.baseline_rate, constants, strong=True
        ),
        "predicted_abreast_32_each": _abreast(
            row["machine"], row["model"], devices, case.baseline_rate, constants, strong=False
        ),
        "fitted_without": row["machine"],
        **_origin(),
    }


def _abreast(
    machine: str, model: str, devices: int, rate_on_one: float, constants: Constants, *, strong: bool
) -> dict[str, float]:
    """abreast: a process per GPU, batches staged ahead, a ring all-reduce of buckets during the backward pass."""
    setup = Setup(
        find_model(model),
        find_machine(MACHINES[machine]),
        StepTime(_ROWS / rate_on_one, 1.0, "Rossum's row of one GPU"),
        _ROWS,
        exchange="ring",
        software="ddp",
        row_bytes=_PIXELS[model] ** 2 * 3 * 4,
        strong=strong,
    )
    found: Prediction = predict(setup, devices, 1, constants)
    return _rounded(found.rows_per_second, found.low, found.high)


def _rounded(rate: float, low: float, high: float) -> dict[str, float]:
    return {"rate": round(rate, 2), "low": round(low, 2), "high": round(high, 2)}


def _origin() -> dict[str, Any]:
    origin = lines.origin()
    command = "python benchmarks/rossum.py --measurements measurements_open.csv --machines machines.csv"
    return origin | {"command": command}


def newest() -> Lines:
    """The last line of each case, in the order of the tables."""
    found = {tuple(line["case"].values()): line for line in lines.read("rossum")}
    order = list(MACHINES)
    return sorted(
        found.values(),
        key=lambda line: (
            order.index(line["case"]["machine"]),
            line["case"]["model"],
            line["case"]["exchange"],
            line["case"]["devices"],
        ),
    )


def rows_of_keras(found: Lines) -> list[tuple[str, ...]]:
    """The rows for Keras: cited beside predicted."""
    rows = []
    for line in found:
        case, guess = line["case"], line["predicted_keras"]
        off = guess["rate"] / line["cited"] - 1
        rows.append(
            (
                case["machine"],
                case["model"],
                _SERVERS[case["exchange"]],
                str(case["devices"]),
                f"{line['cited']:.1f}",
                f"{line['cited'] / line['cited_on_one']:.2f}",
                f"{guess['rate']:.1f}",
                f"{guess['low']:.1f} to {guess['high']:.1f}",
                f"{100 * off:+.0f} %",
            )
        )
    return rows


def rows_of_abreast(found: Lines) -> list[tuple[str, ...]]:
    """The rows for abreast: the better of Keras's two servers beside the prediction for abreast."""
    best: dict[tuple[str, str, int], dict[str, Any]] = {}
    for line in found:
        key = (line["case"]["machine"], line["case"]["model"], line["case"]["devices"])
        if key not in best or line["cited"] > best[key]["cited"]:
            best[key] = line
    rows = []
    for (machine, model, devices), line in best.items():
        cells = [machine, model, str(devices), f"{line['cited_on_one']:.1f}", f"{line['cited']:.1f}"]
        for name in ("predicted_abreast", "predicted_abreast_32_each"):
            guess = line[name]
            speed_up = guess["rate"] / line["cited_on_one"]
            cells += [f"{guess['rate']:.1f} ({guess['low']:.1f} to {guess['high']:.1f})", f"{speed_up:.2f}"]
        rows.append(tuple(cells))
    return sorted(rows, key=lambda row: (list(MACHINES).index(row[0]), row[1], int(row[2])))


def figures(found: Lines) -> dict[str, str]:
    """The figures by file name: speed-ups on the machine with more than two GPUs, cited and predicted in different styles."""
    drawn = {}
    for model in _PIXELS:
        of_model = [
            line for line in found if line["case"]["machine"] == "rossum-7gforce" and line["case"]["model"] == model
        ]
        if of_model:
            curves = [*_keras_curves(of_model), _abreast_curve(of_model)]
            title = f"{model} on 7gforce, {_ROWS} images in all: cited, and predicted"
            drawing = curves_figure(title, curves, "times one GPU with Keras", count, float)
            drawn[f"rossum-{model}.svg"] = alone(drawing)
    return drawn


def _keras_curves(found: Lines) -> Iterator[Curve]:
    for exchange, colour in (("ps-cpu", "c0"), ("ps-gpu", "c4")):
        of_server = [line for line in found if line["case"]["exchange"] == exchange]
        name = f"Keras, {_SERVERS[exchange]}"
        cited = [(float(line["case"]["devices"]), *[line["cited"] / line["cited_on_one"]] * 3) for line in of_server]
        yield Curve(name, [(1.0, 1.0, 1.0, 1.0), *cited], colour)  # type: ignore[list-item]
        yield Curve(f"{name}, predicted", _points(of_server, "predicted_keras"), colour, predicted=True)


def _abreast_curve(found: Lines) -> Curve:
    once = {line["case"]["devices"]: line for line in found}
    return Curve("abreast, predicted", _points(list(once.values()), "predicted_abreast"), "c2", predicted=True)


def _points(found: Lines, name: str) -> list[tuple[float, float, float, float]]:
    points = [(1.0, 1.0, 1.0, 1.0)]
    for line in sorted(found, key=lambda line: int(line["case"]["devices"])):
        rate, low, high = (line[name][part] / line["cited_on_one"] for part in ("rate", "low", "high"))
        points.append((float(line["case"]["devices"]), rate, low, high))
    return points


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--measurements", required=True, metavar="CSV")
    parser.add_argument("--machines", required=True, metavar="CSV")
    options = parser.parse_args(arguments)
    try:
        made = list(predicted(read_cases(options.measurements, options.machines)))
    except AbreastError as error:
        print(f"rossum: error: {error}", file=sys.stderr)
        return 2
    lines.append(made)
    for row in [*rows_of_keras(made), *rows_of_abreast(made)]:
        print("  ".join(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
