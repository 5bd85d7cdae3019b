"""Cells in fresh processes, one after another. The measurements of a cell are written before the next cell begins.

Not here: the work of a cell (`cell.py`), and the use of lines (`report.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from abreast import provenance
from abreast.bench import lines
from abreast.bench.cases import Cell
from abreast.bench.line_check import wrong_with
from abreast.bench.load import LoadOfOthers
from abreast.bench.noise import TOO_NOISY, noise
from abreast.device_list import CPU_DEVICES
from abreast.errors import AbreastError, DataError, WorkerError
from abreast.units import counted, duration

BENCHMARK = "bench"
UNIT = "seconds per step"
_END_SECONDS = 5.0
_TAIL_BYTES = 2000
Tell = Callable[[str], None]


@dataclass
class ProgressListener:
    """Receives progress: `now` the current work of a cell, `done` finished work."""

    now: Tell = lambda _: None
    done: Tell = lambda _: None


def measurements(path: Path) -> list[dict[str, Any]]:
    """The lines that `abreast bench` wrote to a file, oldest first. Raises `DataError` for a faulty line."""
    found = [(number, line) for number, line in enumerate(lines.read(path), 1) if line.get("benchmark") == BENCHMARK]
    for number, line in found:
        wrong = wrong_with(line)
        if wrong is not None:
            raise DataError(f"{path}, line {number} {wrong}", "give a file that `abreast bench` wrote, unchanged")
    return [line for _, line in found]


def missing(cells: Sequence[Cell], known: Sequence[dict[str, Any]]) -> list[Cell]:
    """The cells with only the sides that have no line from this machine; cells without such sides are left out."""
    here = provenance.machine()
    measured = {key_of(line["case"]) for line in known if line["machine"] == here}
    left = []
    for cell in cells:
        sides = tuple(side for side in cell.sides if key_of(cell.case.key(side)) not in measured)
        if sides:
            left.append(replace(cell, sides=sides))
    return left


def key_of(case: dict[str, Any]) -> str:
    return json.dumps(case, sort_keys=True)


def measure(cells: Sequence[Cell], output: Path, listener: ProgressListener, timeout_seconds: float) -> list[str]:
    """Measure every cell and append its lines; return a line for each failure. After Ctrl-C, finished cells are kept."""
    failures = []
    begin = time.monotonic()
    for number, cell in enumerate(cells):
        name = f"[{number + 1}/{len(cells)}] {described(cell)}"
        listener.now(name + _time_left(begin, number, len(cells)))
        try:
            result = _run(cell, lambda doing, name=name: listener.now(f"{name}: {doing}"), timeout_seconds)  # type: ignore[misc]
        except AbreastError as error:
            failures.append(f"{described(cell)}: {error}")
            listener.done(f"{name}: failed: {error}")
            continue
        made = list(_lines(cell, result))
        lines.append(output, made)
        for line in made:
            listener.done(f"{name}, {_said(line)}")
        for side, reason in result["failed"].items():
            failures.append(f"{described(cell)}, {side}: {reason}")
            listener.done(f"{name}, {side}: failed: {reason}")
    return failures


def described(cell: Cell) -> str:
    case = cell.case
    return f"{case.model} on {case.backend}, {counted(case.devices, 'device')}, {case.precision}"


def _said(line: dict[str, Any]) -> str:
    case, step, reason = line["case"], line["median"], noise(line)
    noisy = f"; {TOO_NOISY}: {reason}" if reason else ""
    return f"{case['side']}: {duration(step)} a step, {case['rows'] / step:,.0f} rows per second{noisy}"


def _time_left(begin: float, done: int, total: int) -> str:
    if not done:
        return ""
    seconds = (time.monotonic() - begin) / done * (total - done)
    return f" (about {max(1, round(seconds / 60))} min left)"


def _lines(cell: Cell, result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    origin = provenance.origin_of(provenance.command(), provenance.commit(Path.cwd()))
    notes: dict[str, Any] = {
        name: result[name]
        for name in ("source", "num_parameters", "gradient_tensor_bytes", "cores_of_others")
        if name in result
    }
    notes |= {
        "steps_per_sample": result["steps"],
        "warm_up": f"two turns, and the first {counted(cell.warm_up, 'step')} of each turn",
    }
    for side, samples in result["samples"].items():
        parts = {name: result[name] for name in ("step_parts_seconds", "all_reduce_told") if name in result}
        yield lines.line(
            BENCHMARK,
            cell.case.key(side),
            samples,
            UNIT,
            origin=origin,
            samples=[round(sample, 9) for sample in samples],
            turns_with=[other for other in result["samples"] if other != side],
            **notes,
            **(parts if side == "abreast" else {}),
        )


def _run(cell: Cell, tell: Tell, timeout_seconds: float) -> dict[str, Any]:
    """The result of a cell, with the load of other processes. Raises `AbreastError` if it fails, dies or takes too long."""
    load = LoadOfOthers()
    result = _measured(cell, tell, timeout_seconds)
    used = load.cores()
    return result if used is None else result | {"cores_of_others": round(used, 3)}


def _measured(cell: Cell, tell: Tell, timeout_seconds: float) -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if name != CPU_DEVICES}
    environment = kept | lines.STEADY_HEAP | {"KERAS_BACKEND": cell.case.backend}
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "abreast.bench.cell", cell.to_json()],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # this process passes Ctrl-C on
        )
        try:
            result = _answer(process, tell, timeout_seconds, log)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            return result
        finally:
            _end(process)


def _answer(process: subprocess.Popen[bytes], tell: Tell, timeout_seconds: float, log: Any) -> dict[str, Any]:
    assert process.stdout is not None
    deadline = time.monotonic() + timeout_seconds
    limit = threading.Timer(min(timeout_seconds, threading.TIMEOUT_MAX), process.kill)  # then stdout ends
    limit.daemon = True
    limit.start()
    try:
        for text in process.stdout:
            message = json.loads(text)
            if "error" in message:
                raise AbreastError(message["error"], message["hint"])
            if "result" in message:
                result: dict[str, Any] = message["result"]
                return result
            tell(message["doing"])
    finally:
        limit.cancel()
    if time.monotonic() >= deadline:
        hint = "give more time with --timeout, or fewer --steps"
        raise WorkerError(f"no result after {duration(timeout_seconds)}", hint)
    raise WorkerError(f"its process ended with code {process.wait(_END_SECONDS)}\n{_tail(log)}".rstrip())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it started."""
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with contextlib.suppress(OSError):
        process.stdin.close()
    process.stdout.close()


def _tail(log: Any) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - _TAIL_BYTES))
    text: str = log.read().decode(errors="replace")
    return text
