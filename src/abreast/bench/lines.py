"""A measurement as one JSON line: numbers with their unit, spread, machine, versions, commit and command.

Imports `hardware`, `plain_json` and `errors`, and no framework.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abreast import plain_json
from abreast.errors import DataError

# For every process that is timed. glibc gives memory back when the heap's last block is free: whether it is, and 5 % of a
# step's time, is the luck of a process.
STEADY_HEAP = {"MALLOC_TRIM_THRESHOLD_": str(4 << 30), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}


def line(
    benchmark: str,
    case: dict[str, Any],
    samples: Sequence[float],
    unit: str,
    /,
    *,
    origin: dict[str, Any],
    **notes: Any,
) -> dict[str, Any]:
    """One measurement. `case` says what was measured, `notes` how: what was dropped as warm-up, steps per sample."""
    return {
        "benchmark": benchmark,
        "case": case,
        "unit": unit,
        "median": round(statistics.median(samples), 9),
        "quartiles": [round(value, 9) for value in quartiles(samples)],
        "num_samples": len(samples),
        **notes,
        **origin,
    }


def append(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Add whole lines to a file; raises `DataError` where that fails. Half a line that a killed process left there goes."""
    text = "".join(json.dumps(one) + "\n" for one in lines).encode()
    try:
        with path.open("a+b") as file:
            whole = _whole_lines(path.read_bytes())
            file.truncate(len(whole))
            file.write(text if not whole or whole.endswith(b"\n") else b"\n" + text)
    except OSError as error:
        hint = "give a file in a folder that exists, that you may write to, and that has room"
        raise DataError(f"cannot write to {path}: {error.strerror or error}", hint) from error


def read(path: Path) -> list[dict[str, Any]]:
    """All lines of a file, oldest first; none where there is no file. Raises `DataError` for one that is no measurement."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}", "give a file of measurements") from error
    texts = _whole_lines(data).decode(errors="replace").splitlines()
    return [_parsed(path, number, text) for number, text in enumerate(texts, 1) if text.strip()]


def half_line(path: Path) -> str | None:
    """What there is to say of a last line that `read` leaves out, as a killed process leaves one; None of whole ones."""
    try:
        data = path.read_bytes()
    except OSError:  # which `read` has words for
        return None
    return None if len(_whole_lines(data)) == len(data) else f"the last line of {path} is cut off, and left out"


def _whole_lines(data: bytes) -> bytes:
    """Without the half of one at the end. A last line that lacks only its end, as some editors save it, is whole."""
    end = data.rfind(b"\n") + 1
    try:
        plain_json.parse(data[end:])
    except ValueError:
        return data if not data[end:].strip() else data[:end]
    return data


def _parsed(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        found = plain_json.parse(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or "case" not in found:
        raise DataError(
            f"{path}, line {number}: {text[:80]!r} is no measurement", "give a file that `abreast bench` wrote"
        )
    return found


def quartiles(samples: Sequence[float]) -> tuple[float, float]:
    if len(samples) < 2:
        return samples[0], samples[0]
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return first, third
