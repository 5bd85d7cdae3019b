"""Fit the constants of the scaling model to published measurements, and find the width of its intervals.

    python benchmarks/plan_fit.py --measurements measurements_open.csv --machines machines.csv [--write]

Each constant is kept near its prior value (`expected` and `spread`, a logarithm, in `constants.json`), so that a constant that
the rows do not determine keeps it. All machines have the same weight, however many rows they have. Prints the
constants; `--write` writes them to the file that ships.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from published_model import breakdown
from scaling_rows import ScalingRow, read_cases
from scipy.optimize import least_squares

from abreast.errors import AbreastError
from abreast.plan import constants as shipped_file
from abreast.plan.constants import Constants, Interval, described, shipped
from abreast.plan.interval import loss_of
from abreast.plan.scenario import Scenarios

Floats = NDArray[np.float64]
_NOISE = 0.08  # of a published rate, as a logarithm: beyond it an error counts linearly
_TRUST = 0.25  # weight of the prior values, relative to the rows of all machines
_COVER = 0.81  # a little more than promised: a new machine differs more


class Fit:
    """The rows that can be predicted, as arrays."""

    def __init__(self, cases: Sequence[ScalingRow]) -> None:
        self.cases = [case for case in cases if case.scenario is not None]
        self.many = Scenarios([case.scenario for case in self.cases if case.scenario is not None])
        self.measured = np.array([case.efficiency for case in self.cases])
        self.assumed = np.array([len(case.assumed) > 0 for case in self.cases])
        names, self.machine = np.unique([case.row["machine"] for case in self.cases], return_inverse=True)
        self.machines = [str(name) for name in names]
        entries = described()["constants"]
        self.names = list(entries)
        self.expected = np.log([entry["expected"] for entry in entries.values()])
        self.spread = np.array([entry["spread"] for entry in entries.values()])

    def efficiency(self, logarithms: Floats) -> Floats:
        return np.asarray(breakdown(self.many, self.constants(logarithms)).efficiency)

    def constants(self, logarithms: Floats) -> Constants:
        values = zip(self.names, np.exp(logarithms).tolist(), strict=True)
        return Constants(dict(values), shipped().interval)

    def solve(self, used: NDArray[np.bool_], start: Floats | None = None) -> Floats:
        """The logarithms of the constants that fit the used rows best."""
        rows = np.bincount(self.machine[used], minlength=len(self.machines))
        weight = np.sqrt(1 / np.maximum(rows, 1)[self.machine])

        def residuals(logarithms: Floats) -> Floats:
            error = (np.log(self.efficiency(logarithms)) - np.log(self.measured)) / _NOISE
            soft = np.sign(error) * np.sqrt(2 * (np.sqrt(1 + error**2) - 1))
            return np.concatenate([(soft * weight)[used], _TRUST * (logarithms - self.expected) / self.spread])

        first = self.expected if start is None else start
        return np.asarray(least_squares(residuals, first, max_nfev=30).x)

    def left_out(self, start: Floats) -> Floats:
        """The efficiency of each row, predicted by a fit without its machine."""
        predicted = np.zeros(len(self.measured))
        for index in range(len(self.machines)):
            here = self.machine == index
            predicted[here] = self.efficiency(self.solve(~here, start))[here]
        return predicted

    def interval(self, predicted: Floats, used: NDArray[np.bool_] | None = None) -> Interval:
        """The interval with the best score among those that cover 81 % on the average machine.

        The score is the width, plus ten times (2 / 0.2) the distance of a measured value outside the interval.
        Source: Gneiting and Raftery, JASA 102 (2007).
        """
        here = np.ones(len(predicted), bool) if used is None else used
        error, loss = np.log(predicted / self.measured), loss_of(predicted)
        best: tuple[float, Interval] | None = None
        for floor in (0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06):
            for assumed in (0.0, 0.02, 0.05):
                base = floor + assumed * self.assumed
                for low in (1.0, 1.5, 2.0):
                    per_loss = self._slope(error, loss, base, low, here)
                    half = base + per_loss * loss
                    outside = np.maximum(error - low * half, 0) + np.maximum(-error - half, 0)
                    score = self._mean(half * (1 + low) + 2 / 0.2 * outside, here)
                    if best is None or score < best[0]:
                        best = (score, Interval(floor, per_loss, assumed, low, 1.0))
        assert best is not None
        return best[1]

    def _slope(self, error: Floats, loss: Floats, base: Floats, low: float, here: NDArray[np.bool_]) -> float:
        """The width per loss, by bisection."""
        below, above = 0.0, 8.0
        for _ in range(30):
            middle = (below + above) / 2
            half = base + middle * loss
            covered = self._mean(((error <= low * half) & (error >= -half)).astype(float), here)
            below, above = (middle, above) if covered < _COVER else (below, middle)
        return above

    def _mean(self, values: Floats, here: NDArray[np.bool_]) -> float:
        """The average over machines of the average over their rows."""
        sums = np.bincount(self.machine[here], values[here], len(self.machines))
        rows = np.bincount(self.machine[here], minlength=len(self.machines))
        return float((sums[rows > 0] / rows[rows > 0]).mean())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--measurements", required=True, metavar="CSV")
    parser.add_argument("--machines", required=True, metavar="CSV")
    parser.add_argument("--write", action="store_true", help="into the file that ships")
    options = parser.parse_args(arguments)
    try:
        fit = Fit(read_cases(options.measurements, options.machines))
    except AbreastError as error:
        print(f"plan_fit: error: {error}", file=sys.stderr)
        return 2
    solution = fit.solve(np.ones(len(fit.measured), bool))
    interval = fit.interval(fit.left_out(solution))
    content = described()
    for name, value in zip(fit.names, np.exp(solution), strict=True):
        content["constants"][name]["value"] = float(f"{value:.3g}")
        expected = content["constants"][name]["expected"]
        print(f"{name:28s} {value:10.3g}  expected {expected:g} {content['constants'][name]['unit']}")
    content["fitted_on"] = f"{len(fit.measured)} published rows of {len(fit.machines)} machines"
    content["interval"] = {name: round(value, 4) for name, value in vars(interval).items()}
    print(content["interval"])
    if options.write:
        _write(content)
    return 0


def _write(content: dict[str, Any]) -> None:
    path = Path(shipped_file.__file__).with_name("constants.json")
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written to {path.name}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
