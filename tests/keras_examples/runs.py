"""One example plainly and placed, in processes of their own, and how what they recorded compares. Imports no framework."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.client import ENVIRONMENT, NUM_DEVICES, ROOT

LIMIT_SECONDS = 600
# Measured: 1e-7 after the six steps of each fit; 4e-1 where a layer relates the rows of a batch.
TOLERANCE = 2e-3
_PLAY = ROOT / "tests" / "keras_examples" / "play.py"


@dataclass(frozen=True)
class Verdict:
    """`verdict`: equal, refused, announced, different, failed (placed only), or not run (it fails plainly)."""

    verdict: str
    difference: float | None
    calls: int  # of fit, evaluate, predict and the like
    where: str
    draws: tuple[str, ...]  # random layers and draws that were stilled


def run(script: Path, backend: str) -> Verdict:
    """Play an example on both sides. Off JAX replicas draw their own random numbers, so what draws is stilled there."""
    mode = "random" if backend == "jax" else "still"
    plain = _play(script, backend, mode, [])
    if plain["error"] is not None:
        return Verdict("not run", None, 0, plain["error"], ())
    placed = _play(script, backend, mode, ["-m", "abreast", "run", "--cpu-devices", str(NUM_DEVICES)])
    return _verdict(plain, placed)


def _play(script: Path, backend: str, mode: str, command: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="keras-example-") as folder:
        output = Path(folder) / "recorded.json"
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        chosen = {"KERAS_BACKEND": backend, "KERAS_HOME": folder, "PYTHONPATH": paths}
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


def _verdict(plain: dict[str, Any], placed: dict[str, Any]) -> Verdict:
    if placed["error"] is not None:
        refused = placed["error"].startswith("abreast.errors.")
        return Verdict("refused" if refused else "failed", None, 0, placed["error"][:300], ())
    draws = tuple(plain["draws"])
    if len(plain["calls"]) != len(placed["calls"]):
        where = f"{len(plain['calls'])} calls plainly, {len(placed['calls'])} placed"
        return Verdict("different", None, len(plain["calls"]), where, draws)
    differences = [*_differences(plain["calls"], placed["calls"]), (0.0, "")]
    largest, where = max(differences)
    announced = [text for text in placed["warnings"] if f"{os.sep}abreast{os.sep}" in text or "replica" in text]
    verdict = "equal" if largest < TOLERANCE else "announced" if announced else "different"
    told = f"; {announced[0][:200]}" if verdict == "announced" else ""
    return Verdict(verdict, largest, len(plain["calls"]), where + told, draws)


def _differences(plain: list[Any], placed: list[Any]) -> Iterator[tuple[float, str]]:
    """Relative differences of all numbers, each with its place."""
    for number, (one, other) in enumerate(zip(plain, placed, strict=True)):
        before, after = dict(_flat(one["values"])), dict(_flat(other["values"]))
        for name in before.keys() | after.keys():
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
    return abs(one - other) / max(abs(one), abs(other), 1e-3)
