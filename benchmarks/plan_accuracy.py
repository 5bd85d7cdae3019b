"""How well the scaling model predicts published measurements, machine by machine.

    python benchmarks/plan_accuracy.py --measurements measurements_open.csv --machines machines.csv [--leave-one-out] [--record]

Takes files with the columns of `measurements_open.csv` and `machines.csv`. From a series it uses the row of one device, with the
model's public shape and the machine's facts. Without `--leave-one-out` the constants are those that ship. With it, each machine
is predicted by constants, and given intervals, that were fitted to all other machines. The null model is perfect
linear scaling. `--record` appends a line to `results/plan_accuracy.jsonl`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import lines
import numpy as np
from numpy.typing import NDArray
from published_model import breakdown
from scaling_rows import ScalingRow, read_cases

from abreast.errors import AbreastError, DataError
from abreast.plan.constants import shipped
from abreast.plan.interval import interval
from abreast.plan.scenario import Scenarios

Floats = NDArray[np.float64]
_NULL_MARGIN = 0.02


@dataclass(frozen=True)
class Score:
    """Absolute errors as parts of the measured rate; `covered` is the share inside the 80 % interval."""

    machine: str
    rows: int
    median: float
    mean: float
    p90: float
    covered: float
    abstained: float
    null_median: float
    null_mean: float
    null_p90: float

    @property
    def worse_than_null(self) -> bool:
        return self.median > self.null_median + _NULL_MARGIN


@dataclass(frozen=True)
class Prediction:
    """Efficiency and its interval; no number where the model abstains."""

    middle: Floats
    low: Floats
    high: Floats


def frozen(cases: Sequence[ScalingRow]) -> Prediction:
    """Predictions with the constants that ship."""
    told = np.array([case.scenario is not None for case in cases])
    middle = np.full(len(cases), np.nan)
    if told.any():
        many = Scenarios([case.scenario for case in cases if case.scenario is not None])
        middle[told] = breakdown(many, shipped()).efficiency
    assumed = np.array([len(case.assumed) > 0 for case in cases])
    low, high = interval(middle, assumed, shipped().interval)
    return Prediction(middle, low, high)


def left_out(cases: Sequence[ScalingRow]) -> Prediction:
    """Predictions with constants and intervals that were fitted without the rows of the machine."""
    from plan_fit import Fit

    fit = Fit(cases)
    told = np.array([case.scenario is not None for case in cases])
    without = fit.left_out(fit.solve(np.ones(len(fit.measured), bool)))
    low, high = np.zeros(len(without)), np.zeros(len(without))
    for index in range(len(fit.machines)):
        here = fit.machine == index
        widths = fit.interval(without, ~here)
        low[here], high[here] = interval(without[here], fit.assumed[here], widths)
    columns = []
    for values in (without, low, high):
        column = np.full(len(cases), np.nan)
        column[told] = values
        columns.append(column)
    return Prediction(*columns)


def scores(cases: Sequence[ScalingRow], prediction: Prediction) -> list[Score]:
    """One score per machine, in the order of their names."""
    machines = np.array([case.row["machine"] for case in cases])
    return [_score(str(name), cases, prediction, np.flatnonzero(machines == name)) for name in np.unique(machines)]


def _score(machine: str, cases: Sequence[ScalingRow], prediction: Prediction, places: NDArray[np.int64]) -> Score:
    measured = np.array([cases[place].efficiency for place in places])
    middle = prediction.middle[places]
    told = np.isfinite(middle) & np.isfinite(measured)
    null = np.abs(1 - measured) / measured
    if not told.any():
        return Score(machine, len(places), *[float("nan")] * 4, 1.0, *_three(null[np.isfinite(null)]))
    error = np.abs(middle - measured)[told] / measured[told]
    inside = (prediction.low[places][told] <= measured[told]) & (measured[told] <= prediction.high[places][told])
    abstained = 1 - float(told.mean())
    return Score(machine, len(places), *_three(error), float(inside.mean()), abstained, *_three(null[told]))


def _three(errors: Floats) -> tuple[float, float, float]:
    if len(errors) == 0:
        return (float("nan"),) * 3
    return float(np.median(errors)), float(np.mean(errors)), float(np.quantile(errors, 0.9))


def average(found: Sequence[Score]) -> Score:
    """The mean of each figure over machines; machines without a prediction count only as abstained."""
    names = ("median", "mean", "p90", "covered", "abstained", "null_median", "null_mean", "null_p90")
    means = {name: _mean([getattr(score, name) for score in found]) for name in names}
    return Score("average over machines", sum(score.rows for score in found), **means)


def _mean(values: Sequence[float]) -> float:
    """The mean of those that are numbers."""
    numbers = [value for value in values if np.isfinite(value)]
    return sum(numbers) / len(numbers) if numbers else float("nan")


def table(found: Sequence[Score]) -> str:
    head = f"{'machine':38s} {'rows':>5s} {'median':>7s} {'mean':>7s} {'p90':>7s} {'in 80%':>7s} {'abstain':>7s}"
    head += f" | {'null':>7s} {'mean':>7s} {'p90':>7s}"
    body = [head, "-" * len(head)]
    for score in [*found, average(found)]:
        ours = (score.median, score.mean, score.p90, score.covered, score.abstained)
        null = (score.null_median, score.null_mean, score.null_p90)
        figures = (
            " ".join(f"{100 * value:6.1f}%" for value in ours)
            + " | "
            + " ".join(f"{100 * value:6.1f}%" for value in null)
        )
        mark = "  worse than null" if score.worse_than_null else ""
        body.append(f"{score.machine[:38]:38s} {score.rows:5d} {figures}{mark}")
    return "\n".join(body)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--measurements", required=True, metavar="CSV")
    parser.add_argument("--machines", required=True, metavar="CSV")
    parser.add_argument("--leave-one-out", action="store_true", help="fit without the machine that is predicted")
    parser.add_argument("--record", action="store_true", help="append a line to results/plan_accuracy.jsonl")
    options = parser.parse_args(arguments)
    try:
        cases = read_cases(options.measurements, options.machines)
        if not cases:
            raise DataError(f"{options.measurements} has no row to predict", "rows of several devices with a baseline")
    except AbreastError as error:
        print(f"plan_accuracy: error: {error}", file=sys.stderr)
        return 2
    found = scores(cases, left_out(cases) if options.leave_one_out else frozen(cases))
    print(table(found))
    reasons = sorted({case.reason for case in cases if case.reason})
    print("\n".join(f"abstained: {reason}" for reason in reasons[:20]), file=sys.stderr)
    if options.record:
        lines.append([_line(found, options.leave_one_out)])
    return 0


def _line(found: Sequence[Score], leave_one_out: bool) -> dict[str, object]:
    """The figures. The line identifies the rows by their number, not by a path."""
    case = {"machines": len(found), "rows": sum(score.rows for score in found), "leave_one_out": leave_one_out}
    figures = {name: round(value, 4) for name, value in asdict(average(found)).items() if isinstance(value, float)}
    worse = [score.machine for score in found if score.worse_than_null]
    origin = lines.origin()
    origin["command"] = (
        "python benchmarks/plan_accuracy.py --measurements measurements_open.csv --machines machines.csv"
        + (" --leave-one-out" if leave_one_out else "")
    )
    each = [
        {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(score).items()}
        for score in found
    ]
    return {
        "benchmark": "plan_accuracy",
        "case": case,
        "unit": "1",
        **figures,
        "worse_than_null": worse,
        "scores": each,
        **origin,
    }


if __name__ == "__main__":
    sys.exit(main())
