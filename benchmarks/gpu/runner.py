"""Runs each part in its own process with a time limit, and all within one budget. A part that fails stops no other.

`jobs` makes parts into jobs for the machine at hand, `run` runs them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.cpu import num_cores
from abreast.device_list import CPU_DEVICES
from benchmarks import lines
from benchmarks.gpu.catalogue import USUAL_SECONDS, Part
from benchmarks.gpu.machine import BACKENDS, Machine
from benchmarks.gpu.rows import Row, Status

ROOT = Path(__file__).resolve().parents[2]
_LEAST_SHARE = 0.5  # of its limit: a part does not begin with less
_RESERVE_SECONDS = 10.0  # between the limit that a body gets and the limit that ends it
_CORES_PER_PART = 2
_LOG_CHARACTERS = 3000
# No part may take all of a GPU's memory: parts run side by side.
_SHARED_GPU = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


class Budget:
    """The time that is left for a run. With more than the usual time, each part has more."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self._factor = max(1.0, seconds / USUAL_SECONDS)

    def left_seconds(self) -> float:
        return self._end - self._clock()

    def limit_seconds(self, part: Part) -> float:
        """The time that a part may take if it begins now."""
        return min(self.usual_seconds(part), self.left_seconds())

    def usual_seconds(self, part: Part) -> float:
        return part.limit_seconds * self._factor


@dataclass(frozen=True)
class Job:
    """A part on one backend and number of devices; `lacks` names its needs that the machine does not have."""

    part: Part
    backend: str
    devices: int
    lacks: str | None = None

    def row(self, machine: Machine, status: Status, **values: Any) -> Row:
        return Row(self.part.name, self.backend, self.devices, machine.kind, status, **values)


def jobs(parts: Sequence[Part], machine: Machine) -> list[Job]:
    """Every part on every backend that it has, also if the machine lacks a need."""
    return [
        job
        for part in parts
        for backend in (BACKENDS if part.per_backend else (next(iter(machine.usable()), ""),))
        for job in _jobs(part, backend, machine)
    ]


def _jobs(part: Part, backend: str, machine: Machine) -> Iterator[Job]:
    needs = ("keras", backend, *part.needs) if part.per_backend else part.needs
    lacks = next((absent for need in needs if (absent := machine.lacks(need))), None)
    most = machine.seen.get(backend, machine.simulated or machine.num_gpus)
    for count in part.counts:
        if count == "one" or len(part.counts) == 1:
            yield Job(part, backend, 1 if count == "one" else most, lacks)
        else:
            yield Job(part, backend, max(2, most), lacks or (None if most > 1 else f"a second {machine.kind.upper()}"))


def run(todo: Sequence[Job], machine: Machine, budget: Budget) -> Iterator[Row]:
    """The row of each job, when it ends: first the jobs that measure no time, side by side, then the others, one by one."""
    for job in todo:
        if job.lacks is not None:
            yield job.row(machine, "missing", why=job.lacks)
    ready = [job for job in todo if job.lacks is None]
    with ThreadPoolExecutor(max(1, num_cores() // _CORES_PER_PART)) as pool:
        yield from pool.map(lambda job: run_job(job, machine, budget), [job for job in ready if not job.part.alone])
    for job in ready:
        if job.part.alone:
            yield run_job(job, machine, budget)


def run_job(job: Job, machine: Machine, budget: Budget) -> Row:
    """Run a body to its end, or to its limit."""
    limit, usual = budget.limit_seconds(job.part), budget.usual_seconds(job.part)
    if limit < _LEAST_SHARE * usual:
        return job.row(machine, "left out", why=f"{max(0.0, limit):.0f} s were left, of {usual:.0f} s")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="abreast-gpu-", ignore_cleanup_errors=True) as folder:
        outcome = _outcome(job, machine, limit, Path(folder))
    if "late" in outcome and limit < usual:
        outcome["late"] += f", of {usual:.0f} s"
        return _row(job, machine, "left out", outcome, began)
    return _row(job, machine, _status(outcome), outcome, began)


def _outcome(job: Job, machine: Machine, limit: float, folder: Path) -> dict[str, Any]:
    place = {"backend": job.backend, "devices": job.devices, "simulated": bool(machine.simulated)}
    place["seconds"] = limit - _RESERVE_SECONDS
    result = folder / "result.json"
    command = [sys.executable, "-m", "benchmarks.gpu.body", job.part.body, json.dumps(place), str(result)]
    with (folder / "log").open("w+b") as log:
        environment = environment_of(job, bool(machine.simulated)) | {"TMPDIR": str(folder)}
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, stdin=subprocess.PIPE, start_new_session=True
        )
        late = _wait(process, limit)
        said = (folder / "log").read_text(errors="replace")[-_LOG_CHARACTERS:]
    if late is not None:
        return {"late": late, "log": said}
    if result.exists():
        outcome: dict[str, Any] = json.loads(result.read_text())
        return outcome | ({} if _status(outcome) == "passed" else {"log": said})
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
    return {"error": f"the process ended with code {process.returncode}: {last}", "log": said}


def _wait(process: subprocess.Popen[bytes], limit: float) -> str | None:
    """Wait for a process, and end it at its limit; returns a text if that was needed. Its own child processes always end too."""
    try:
        process.wait(limit)
        return None
    except subprocess.TimeoutExpired:
        return f"no end after {limit:.0f} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def environment_of(job: Job, simulated: bool) -> dict[str, str]:
    """The variables of a part's process."""
    inherited = {name: value for name, value in os.environ.items() if name != CPU_DEVICES}
    paths = [str(ROOT / "src"), str(ROOT), str(ROOT / "benchmarks"), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONUNBUFFERED": "1"}
    chosen = {"KERAS_BACKEND": job.backend} if job.backend else {}
    place = _NO_GPU if simulated else {} if job.part.alone else _SHARED_GPU
    return inherited | lines.STEADY_HEAP | own | chosen | place


def _status(outcome: dict[str, Any]) -> Status:
    if "missing" in outcome:
        return "missing"
    return "failed" if "error" in outcome or "late" in outcome or outcome["problems"] else "passed"


def _row(job: Job, machine: Machine, status: Status, outcome: dict[str, Any], began: float) -> Row:
    whys = [outcome[name] for name in ("missing", "error", "late") if name in outcome]
    return job.row(
        machine,
        status,
        figure=outcome.get("figure", ""),
        why="; ".join([*whys, *outcome.get("problems", ())]),
        absent=outcome.get("absent", ()),
        facts=outcome.get("facts", {}) | ({"log": outcome["log"]} if "log" in outcome else {}),
        seconds=round(time.monotonic() - began, 1),
    )
