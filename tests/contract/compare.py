"""How the results of two runs are compared. Imports no framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tests.contract.cases import Case, Results

# Largest difference allowed, relative to the largest number of the array. Half precision rounds every product:
# bfloat16 keeps 8 bits (4e-3), float16 11 (5e-4), and rows are added in another order.
TOLERANCES = {"float64": 1e-10, "float32": 1e-5, "mixed_bfloat16": 5e-2, "mixed_float16": 5e-3}
# Arrays whose largest number is smaller are compared with this one: what is left of numbers that cancel is rounding.
SMALLEST_SCALE = 0.1

# Keras sums what AUC and its kin count per threshold in float32, whatever the job's precision.
IN_FLOAT32 = ("auc", "p_at_r", "sensitivity")

# JAX's own attention and TensorFlow's connectionist temporal classification compute in float32.
IN_FLOAT32_MODELS = ("attention", "ctc")

Verdict = Literal["equal", "refused", "failed", "different"]


@dataclass(frozen=True)
class Comparison:
    """`difference` is the largest relative one, and `where` is its array; `verdict` is the conclusion.

    "refused": both raise the same error, or abreast refuses before the first step. "failed": any other exception.
    """

    verdict: Verdict
    difference: float = 0.0
    where: str = ""
    details: str = field(default="", compare=False)


def tolerance(case: Case) -> float:
    """The tolerance of a case."""
    return 1e-6 if case.policy == "float64" and case.model in IN_FLOAT32_MODELS else TOLERANCES[case.policy]


def compare(plain: Results, parallel: Results, allowed: float, without: str | None = None) -> Comparison:
    """The verdict on all arrays except the one named `without`."""
    if "error" in parallel:
        same = "error" in plain and plain["error"] == parallel["error"]
        refusal = "AbreastError" in parallel["error"] and "WorkerError" not in parallel["error"]
        early = refusal and parallel["steps"] == 0
        return Comparison(
            "refused" if same or early else "failed",
            where=f"{parallel['error'][0]}: {parallel['message'][:300]}",
            details="" if same or early else parallel["traceback"],
        )
    if "error" in plain:
        return Comparison("different", np.inf, f"plain Keras raises {plain['error'][0]}", plain["traceback"])
    if plain.keys() != parallel.keys():
        return Comparison("different", np.inf, f"only one of them has {sorted(plain.keys() ^ parallel.keys())}")
    differences = {name: relative_difference(parallel[name], plain[name]) for name in plain if name != without}
    doubtful = {name: d for name, d in differences.items() if d > _allowed(name, allowed)}
    considered = doubtful or {name: d for name, d in differences.items() if _allowed(name, allowed) == allowed}
    where = max(considered, key=lambda name: considered[name])
    details = _table(plain, parallel, doubtful)
    return Comparison("different" if doubtful else "equal", considered[where], where, details)


def _allowed(name: str, allowed: float) -> float:
    is_float32 = any(metric in name.rpartition("/")[2] for metric in IN_FLOAT32)
    return max(allowed, 1e-6) if is_float32 else allowed


def relative_difference(actual: Any, expected: Any) -> float:
    """`max |a - b| / max |b|`; infinite for another shape, or where only one of them is finite."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    a, b = actual.astype("float64"), expected.astype("float64")
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    return float(np.max(np.abs(a[finite] - b[finite])) / max(SMALLEST_SCALE, np.max(np.abs(b[finite]))))


def _table(plain: Results, parallel: Results, differences: dict[str, float]) -> str:
    lines = []
    for name, difference in sorted(differences.items(), key=lambda item: -item[1])[:12]:
        plain_head, parallel_head = (np.asarray(results[name]).ravel()[:4] for results in (plain, parallel))
        lines.append(f"  {difference:.2e}  {name}: {parallel_head} instead of {plain_head}")
    return "\n".join(lines)
