"""A measurement as one JSON line: numbers with their unit, spread, machine, versions, commit and command.

Every script here appends such lines to `results/<benchmark>.jsonl`; `table.py` makes tables of them. Imports no framework.
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

RESULTS = Path(__file__).parent / "results"
# For every process that is timed. glibc gives memory back when the heap's last block is free: whether it is, and 5 % of a
# step's time, is the luck of a process.
STEADY_HEAP = {"MALLOC_TRIM_THRESHOLD_": str(4 << 30), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
_PACKAGES = ("abreast", "keras", "jax", "tensorflow", "tensorflow-cpu", "torch", "numpy")


def line(benchmark: str, case: dict[str, Any], samples: Sequence[float], unit: str, **notes: Any) -> dict[str, Any]:
    """One measurement. `case` says what was measured, `notes` how: what was dropped as warm-up, steps per sample."""
    return {
        "benchmark": benchmark,
        "case": case,
        "unit": unit,
        "median": round(statistics.median(samples), 9),
        "quartiles": [round(value, 9) for value in quartiles(samples)],
        "num_samples": len(samples),
        **notes,
        **origin(),
    }


def origin() -> dict[str, Any]:
    """When, by what command, of what commit, on what machine and with what versions something is measured now."""
    main = sys.modules["__main__"].__spec__  # of `python -m`
    script = [os.path.relpath(sys.argv[0])] if main is None else ["-m", main.name]
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": shlex.join(["python", *script, *sys.argv[1:]]),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
    }


def append(lines: Sequence[dict[str, Any]]) -> None:
    """Add lines to the file of their benchmark."""
    RESULTS.mkdir(exist_ok=True)
    for one in lines:
        with (RESULTS / f"{one['benchmark']}.jsonl").open("a") as file:
            file.write(json.dumps(one) + "\n")


def read(benchmark: str) -> list[dict[str, Any]]:
    """All lines of a benchmark, oldest first; none when it never ran."""
    path = RESULTS / f"{benchmark}.jsonl"
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def quartiles(samples: Sequence[float]) -> tuple[float, float]:
    if len(samples) < 2:
        return samples[0], samples[0]
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return first, third


@cache
def machine() -> dict[str, Any]:
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
    return facts | ({"gpus": gpus} if (gpus := _gpus()) else {})


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
def commit() -> str:
    """The commit measured; `+changes` when the sources differ from it."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("+changes" if _git("status", "--porcelain", "--", "src", "benchmarks/*.py") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    root = Path(__file__).parent.parent
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    names = [row.partition(":")[2].strip() for row in text.splitlines() if row.startswith("model name")]
    return names[0] if names else platform.processor()


def _gpus() -> list[str]:
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    except Exception:  # no NVML, no driver, no GPU
        return []
