"""A measurement as one JSON line: numbers with their unit, spread, machine, versions, commit and command."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abreast import plain_json
from abreast.errors import DataError

# For every timed process. glibc returns memory when the heap's last block is free: at random, and at a cost of 5 % of a step.
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
    """One measurement. `case` identifies it; `notes` describe the method, such as warm-up and steps per sample."""
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
    """Add whole lines to a file, after removing half a line of a killed process. Raises `DataError` if that fails."""
    text = "".join(json.dumps(one) + "\n" for one in lines).encode()
    try:
        with path.open("a+b") as file:
            whole = _whole_lines(path.read_bytes())
            file.truncate(len(whole))
            file.write(text if not whole or whole.endswith(b"\n") else b"\n" + text)
    except OSError as error:
        hint = "give a file in an existing folder that you may write to, on a disk with room"
        raise DataError(f"cannot write to {path}: {error.strerror or error}", hint) from error


def read(path: Path) -> list[dict[str, Any]]:
    """All lines of a file, oldest first; none without a file. Raises `DataError` for a line that is not a measurement."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}", "give a file of measurements") from error
    texts = _whole_lines(data).decode(errors="replace").splitlines()
    return [_parsed(path, number, text) for number, text in enumerate(texts, 1) if text.strip()]


def half_line(path: Path) -> str | None:
    """A message about an incomplete last line of a killed process, which `read` leaves out; None if all lines are whole."""
    try:
        data = path.read_bytes()
    except OSError:  # `read` raises it
        return None
    return None if len(_whole_lines(data)) == len(data) else f"the last line of {path} is cut off and left out"


def _whole_lines(data: bytes) -> bytes:
    """The data without half a line at its end. A last line without a newline is whole; some editors save it so."""
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
            f"{path}, line {number}: {text[:80]!r} is not a measurement", "give a file that `abreast bench` wrote"
        )
    return found


def quartiles(samples: Sequence[float]) -> tuple[float, float]:
    if len(samples) < 2:
        return samples[0], samples[0]
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return first, third
