"""`judge`: the verdict on a placed run of a habit, compared with a plain one. Imports no framework.

- "equal": the same results as with plain Keras.
- "warned": the same results, and a warning that plain Keras does not give.
- "refused": an error of abreast's before the first step.
- "announced": other results, and a warning that plain Keras does not give.
- "different": other results without a warning. The worst.
- "failed": an error that plain Keras does not raise, or one of abreast's after the first step.
- "broken": plain Keras raises too: the script must catch what it wants to show.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tests.contract.compare import relative_difference
from tests.habits.run import Ran

_FAILED_CHECK = re.compile("the check whether .* failed on")
Verdict = Literal["equal", "warned", "refused", "announced", "different", "failed", "broken"]


@dataclass(frozen=True)
class Judged:
    """`difference` is the largest relative one; `where` names its result, or is the error's or the warning's text."""

    verdict: Verdict
    difference: float = 0.0
    where: str = ""
    details: str = ""


def judge(plain: Ran, placed: Ran, tolerance: float, without: list[str] | None = None) -> Judged:
    """The verdict on a placed run."""
    if plain.error:
        return Judged("broken", where=f"{plain.error[0]}: {plain.message[:300]}", details=plain.traceback)
    if placed.error:
        return _of_error(placed)
    difference, where = _largest(plain.results, placed.results, without or [])
    said = " | ".join(text for text in placed.warnings if text not in plain.warnings)
    if difference <= tolerance:
        return Judged("warned", difference, said) if said else Judged("equal", difference, where)
    details = f"{_head(placed.results.get(where))} instead of {_head(plain.results.get(where))}"
    if said:
        return Judged("announced", difference, said, f"{where}: {details}")
    return Judged("different", difference, where, details)


def holds(judged: Judged, expected: str, words: str, said: list[str]) -> bool:
    """Whether a verdict is the expected one. An expected warning must come, even if results are equal.

    A row check that fails is expected only by name: its warning would hide what it should find.
    """
    if expected != "refused" and "failed on" not in words and any(_FAILED_CHECK.search(text) for text in said):
        return False
    if expected == "announced":
        return judged.verdict in ("warned", "announced") and any(words in text for text in said)
    if expected == "equal":
        return judged.verdict in ("equal", "warned")
    return judged.verdict == expected and words in judged.where


def _of_error(placed: Ran) -> Judged:
    text = f"{placed.error[0]}: {placed.message[:300]}"
    refusal = "AbreastError" in placed.error and "WorkerError" not in placed.error and placed.steps == 0
    return Judged("refused" if refusal else "failed", where=text, details=placed.traceback)


def _largest(plain: dict[str, Any], placed: dict[str, Any], without: list[str]) -> tuple[float, str]:
    """The largest relative difference, and whose it is."""
    differences = {
        name: _difference(placed.get(name), plain.get(name)) for name in {**plain, **placed} if name not in without
    }
    where = max(differences, key=lambda name: differences[name], default="")
    return differences.get(where, 0.0), where


def _difference(actual: Any, expected: Any) -> float:
    if isinstance(actual, np.ndarray) and isinstance(expected, np.ndarray) and expected.dtype.kind in "biuf":
        return relative_difference(actual, expected)
    return 0.0 if np.array_equal(actual, expected) else np.inf


def _head(value: Any) -> str:
    return str(np.asarray(value).ravel()[:4])
