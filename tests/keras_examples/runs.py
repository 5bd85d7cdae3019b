"""One example with plain Keras and placed, in separate processes, and the comparison of their records. Imports no framework."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.harness.client import ENVIRONMENT, NUM_DEVICES, ROOT

LIMIT_SECONDS = 600
# Measured: 1e-7 after the six steps of each fit; 4e-1 where a layer relates the rows of a batch.
TOLERANCE = 2e-3
# Where float32 differs by more, float64 tells rounding, which deep models make large in a few steps, from a difference.
TOLERANCE_OF_FLOAT64 = 1e-6
_LIBRARIES = ("site-packages", f"{os.sep}abreast{os.sep}")  # abreast's own warnings point at the example
_PLAY = ROOT / "tests" / "keras_examples" / "play.py"


@dataclass(frozen=True)
class Verdict:
    """`verdict`: equal, equal only in float64, refused, announced, different, failed (placed only), not repeatable or not run.

    The last two concern plain Keras: its numbers differ each time, or it fails.
    """

    verdict: str
    difference: float | None
    calls: int  # of fit, evaluate, predict and the like
    where: str
    draws: tuple[str, ...]  # random layers and draws that were stilled


def run(script: Path, backend: str) -> Verdict:
    """Play an example on both sides. Except on JAX, replicas draw their own random numbers, so random layers are off there."""
    mode = "random" if backend == "jax" else "still"
    verdict = _compare(script, backend, mode, "float32", TOLERANCE)
    if verdict.verdict not in ("different", "announced"):
        return verdict
    exact = _compare(script, backend, mode, "float64", TOLERANCE_OF_FLOAT64)
    if exact.verdict != "equal" and verdict.verdict == "announced":
        return verdict
    if exact.verdict != "equal":
        once, again = (_play(script, backend, mode, "float32", []) for _ in range(2))
        repeats = _verdict(once, again, TOLERANCE).verdict == "equal"
        return verdict if repeats else replace(verdict, verdict="not repeatable")
    where = f"{exact.where}, in float64; in float32 {verdict.difference:.0e}: {verdict.where}"
    return replace(exact, verdict="equal in float64", where=where)


def _compare(script: Path, backend: str, mode: str, floatx: str, tolerance: float) -> Verdict:
    plain = _play(script, backend, mode, floatx, [])
    if plain["error"] is not None:
        return Verdict("not run", None, 0, _short(plain["error"]), ())
    placed = _play(script, backend, mode, floatx, ["-m", "abreast", "run", "--cpu-devices", str(NUM_DEVICES)])
    return _verdict(plain, placed, tolerance)


def _play(script: Path, backend: str, mode: str, floatx: str, command: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="keras-example-") as folder:
        output = Path(folder) / "recorded.json"
        (Path(folder) / "keras.json").write_text(json.dumps({"floatx": floatx}))
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        wide = {"JAX_ENABLE_X64": "1"} if floatx == "float64" else {}
        chosen = {**wide, "KERAS_BACKEND": backend, "KERAS_HOME": folder, "PYTHONPATH": paths}
        arguments = [sys.executable, *command, str(_PLAY), str(script), str(output), mode]
        try:
            done = subprocess.run(
                arguments,
                cwd=folder,
                env={**os.environ, **ENVIRONMENT, **chosen},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"took longer than {LIMIT_SECONDS} s"}
        if not output.exists():
            return {"error": f"ended with code {done.returncode}: {done.stderr.strip()[-300:]}"}
        found: dict[str, Any] = json.loads(output.read_text())
        return found


def _verdict(plain: dict[str, Any], placed: dict[str, Any], tolerance: float) -> Verdict:
    if placed["error"] is not None:
        refused = placed["error"].startswith("abreast.errors.")
        return Verdict("refused" if refused else "failed", None, 0, _short(placed["error"]), ())
    draws = tuple(plain["draws"])
    if len(plain["calls"]) != len(placed["calls"]):
        where = f"{len(plain['calls'])} calls plainly, {len(placed['calls'])} placed"
        return Verdict("different", None, len(plain["calls"]), where, draws)
    differences = [*_differences(plain["calls"], placed["calls"]), (0.0, "")]
    largest, where = max(differences)
    by_keras = set(map(_without_place, plain["warnings"]))
    new = [text for text in placed["warnings"] if _without_place(text) not in by_keras]
    announced = [text for text in new if not any(folder in text for folder in _LIBRARIES)]
    verdict = "equal" if largest < tolerance else "announced" if announced else "different"
    told = f"; {announced[0][:200]}" if verdict == "announced" else ""
    return Verdict(verdict, largest, len(plain["calls"]), where + told, draws)


def _without_place(warning: str) -> str:
    """A recorded warning without its file, in which both sides may differ."""
    return warning.rpartition(" (")[0]


def _short(error: str) -> str:
    """An error without colours, and with files by their names."""
    return re.sub(r"\x1b\[\d*m", "", re.sub(r"(/[\w.-]+)+/", "", error))[:300]


def _differences(plain: list[Any], placed: list[Any]) -> Iterator[tuple[float, str]]:
    """Relative differences of all numbers, each with its place."""
    for number, (one, other) in enumerate(zip(plain, placed, strict=True)):
        before, after = dict(_flat(one["values"])), dict(_flat(other["values"]))
        for name in {**before, **after}:
            place = f"{one['call']} {number}: {name}"
            yield _difference(before.get(name), after.get(name)), place


def _flat(values: Any) -> Iterator[tuple[str, float]]:
    if isinstance(values, dict):
        for name, numbers in values.items():
            for epoch, number in enumerate(numbers):
                yield f"{name} of epoch {epoch}", number
        return
    for index, number in enumerate(values):
        yield f"value {index}", number


def _difference(one: float | None, other: float | None) -> float:
    if one is None or other is None:
        return float("inf")
    if one == other or (one != one and other != other):  # both no numbers
        return 0.0
    if not (math.isfinite(one) and math.isfinite(other)):
        return float("inf")
    return abs(one - other) / max(abs(one), abs(other), 1e-3)
