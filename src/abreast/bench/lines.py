"""A measurement as one JSON line: numbers with their unit, spread, machine, versions, commit and command.

Imports `hardware`, `plain_json` and `errors`, and no framework.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from abreast import plain_json
from abreast.errors import DataError
from abreast.hardware import cpu_model, list_devices, num_cores

# For every process that is timed. glibc gives memory back when the heap's last block is free: whether it is, and 5 % of a
# step's time, is the luck of a process.
STEADY_HEAP = {"MALLOC_TRIM_THRESHOLD_": str(4 << 30), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
_PACKAGES = ("abreast", "keras", "jax", "tensorflow", "tensorflow-cpu", "torch", "numpy")
_GIT_SECONDS = 10


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


def origin_of(command: Sequence[str], commit: str | None) -> dict[str, Any]:
    """When, by what command, of what commit (None: of none), on what machine and with what versions is measured now."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": shlex.join(command),
        **({"commit": commit} if commit is not None else {}),
        "machine": machine(),
        "versions": versions(),
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


@cache
def machine() -> dict[str, Any]:
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_model(),
        "cores": num_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
    gpus = [device.model for device in list_devices() if device.kind == "gpu"]
    return facts | ({"gpus": gpus} if gpus else {})


@cache
def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def commit(folder: Path, *sources: str) -> str | None:
    """The commit of the repository that a folder is in; `+changes` when its sources differ from it; None without one."""
    try:
        head = _git(folder, "rev-parse", "--short=12", "HEAD")
        return head + (
            "+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no", "--", *sources) else ""
        )
    except (OSError, subprocess.SubprocessError):
        return None


def command() -> list[str]:
    """The running command, as somebody would type it."""
    main = sys.modules["__main__"].__spec__  # of `python -m`
    if main is not None:
        name = main.name.removesuffix(".__main__")
        return [*(["abreast"] if name == "abreast" else ["python", "-m", name]), *sys.argv[1:]]
    script = Path(sys.argv[0])
    return [*([script.name] if script.name == "abreast" else ["python", os.path.relpath(script)]), *sys.argv[1:]]


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS
    )
    return done.stdout.strip()
