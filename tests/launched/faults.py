"""Kill, stop or cut off a process of a job at a moment drawn at random, and see how soon and with which error the others end.

    python -m tests.launched.faults --count 100 --seed 0 > faults.jsonl

prints a JSON line per draw, and at the end their counts and times. A draw follows from the seed and its number alone: `--first 17
--count 1` makes number 17 again. All hosts are emulated (`emulated_hosts.py`; needs root). `--no-watch` is a control: processes
do not watch over one another, and no draw may be as promised.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.slow_links import DEVICE, Namespace
from tests.harness.client import BACKENDS, ROOT, SCRIPTS_PATH
from tests.launched.emulated_hosts import emulated_hosts, pull_cable
from tests.launched.leftovers import Leftovers
from tests.launched.ranks import Shape

HANG_SECONDS = 15.0
JOIN_SECONDS = 40.0
DEATH_SECONDS = 10.0  # promised
SILENCE_SECONDS = HANG_SECONDS + 10.0
LATE_SECONDS = JOIN_SECONDS + 20.0  # after the last one has begun to wait for one that never comes
START_SECONDS = 400.0  # on a busy machine
GIVE_UP_SECONDS = 120.0  # after the last one has begun to look for the others
PORT = 29500  # on every emulated host nobody else is
KINDS = ("kill", "stop", "cut")
SHAPES = ("1x2:device", "2x1:host", "2x1:host", "2x2:host", "2x2:device", "3x1:host")
JOINS = ("before the meeting", "handshake")  # the victim may never come
TRAINS = ("after the meeting", "joining the framework", "compiling", "in steps", "in validation", "between calls")
ENDS = ("at the end", "leaving")
ANY = "any"  # time since the start
MOMENTS = (*JOINS, *TRAINS, *ENDS, ANY)
_NOISE = ("Check failure stack trace", "terminate called", "Fatal Python error", "Exception ignored")


@dataclass(frozen=True)
class Draw:
    """A fault: which process of which job, when, and how. With `waits` the victim stands still at its moment."""

    number: int
    backend: str
    shape: str
    rank: int
    kind: str
    moment: str
    waits: bool
    delay: float  # seconds after the moment, or for any moment after the start

    @staticmethod
    def of(seed: int, number: int, backends: Sequence[str]) -> Draw:
        draws = random.Random(f"{seed} {number}")
        shape = Shape.of(draws.choice(SHAPES))
        moment = draws.choice(MOMENTS)
        kind = draws.choice(KINDS if shape.hosts > 1 else KINDS[:2])
        waits = moment in JOINS or moment in ENDS or (moment not in (ANY, "compiling") and draws.random() < 0.5)
        delay = draws.uniform(0, 20) if moment == ANY else 0.0 if waits else draws.uniform(0, 0.8)
        backend = backends[number % len(backends)]
        return Draw(number, backend, str(shape), draws.randrange(shape.size), kind, moment, waits, round(delay, 3))

    @property
    def gone(self) -> dict[int, set[int]]:
        """For each process that shall end, those whose end it may name."""
        shape = Shape.of(self.shape)
        if self.kind != "cut":
            return {rank: {self.rank} for rank in range(shape.size) if rank != self.rank}
        hosts = {
            rank: rank // shape.processes_per_host == self.rank // shape.processes_per_host
            for rank in range(shape.size)
        }
        return {rank: {other for other in hosts if hosts[other] != hosts[rank]} for rank in hosts}


@dataclass
class Process:
    """One of a job, with its output in a file."""

    popen: subprocess.Popen[bytes]
    output: Path
    errors: Path
    seconds: float | None = None  # from the fault to its end

    @property
    def meets(self) -> float:
        """When it began to look for the others; 0 before."""
        found = re.search(r"meets at ([\d.]+)$", self.output.read_text(), re.MULTILINE)
        return 0.0 if found is None else float(found[1])


def trial(draw: Draw, *, watch: bool = True, give_up_seconds: float = GIVE_UP_SECONDS) -> dict[str, Any]:
    """Make one fault; `wrong` says what was not as promised, if anything, and `fired` how it shows that there was a fault."""
    shape = Shape.of(draw.shape)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hosts = stack.enter_context(emulated_hosts(shape.hosts))
        mark = f"FAULT_JOB={uuid.uuid4()}"
        (folder / "tmp").mkdir()
        leftovers = Leftovers(mark, folder / "tmp", hosts)
        with started(draw, shape, hosts, folder, mark, watch) as job:
            victim = job[draw.rank]
            is_there = await_moment(victim, draw)
            begin, begun = time.monotonic(), time.time()
            fired = inject(draw, victim, hosts[draw.rank // shape.processes_per_host])
            watched = [job[rank] for rank in draw.gone]
            await_ends(watched, begin, give_up_seconds)
            codes = [each.popen.poll() for each in watched]
            late = max([0.0, *(each.meets - begun for each in watched)]) + LATE_SECONDS
            wrong = [] if is_there else [f"the victim did not come to its moment: {victim.errors.read_text()[-500:]}"]
            wrong += [line for rank in draw.gone for line in complaints(draw, rank, job[rank], late)]
        wrong += leftovers.found()
    seconds = [None if each.seconds is None else round(each.seconds, 2) for each in watched]
    return {**asdict(draw), "fired": fired, "seconds": seconds, "codes": codes, "wrong": wrong}


@contextlib.contextmanager
def started(
    draw: Draw, shape: Shape, hosts: Sequence[Namespace], folder: Path, mark: str, watch: bool
) -> Iterator[list[Process]]:
    job = []
    try:
        for rank in range(shape.size):
            job.append(_start(draw, shape, rank, hosts[rank // shape.processes_per_host], folder, mark, watch))
        yield job
    finally:
        for process in job:
            process.popen.kill()
            process.popen.wait(10)


def _start(draw: Draw, shape: Shape, rank: int, host: Namespace, folder: Path, mark: str, watch: bool) -> Process:
    name, _, value = mark.partition("=")
    environ = {
        "KERAS_BACKEND": draw.backend,
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{SCRIPTS_PATH}:{ROOT}",
        "TMPDIR": str(folder / "tmp"),
        "ABREAST_HANG_SECONDS": f"{HANG_SECONDS:g}",
        "ABREAST_JOIN_SECONDS": f"{JOIN_SECONDS:g}",
        "FAULT_DEVICES": str(shape.devices if shape.per == "host" else 1),
        "FAULT_ROUNDS": "1" if draw.moment in ENDS else "1000",
        name: value,
        **shape.variables(rank, PORT),
        **({} if watch else {"FAULT_NO_WATCH": "1"}),
    }
    if rank == draw.rank:
        environ |= {"FAULT_MOMENT": draw.moment, "FAULT_WAITS": "1" if draw.waits else ""}
    output, errors = folder / f"{rank}.output", folder / f"{rank}.errors"
    with output.open("wb") as to, errors.open("wb") as errors_to:
        words = host.command(sys.executable, "-X", "faulthandler", "-m", "tests.launched.fault_script")
        popen = subprocess.Popen(
            words, env={**os.environ, **environ}, stdin=subprocess.PIPE, stdout=to, stderr=errors_to
        )
    return Process(popen, output, errors)


def await_moment(victim: Process, draw: Draw) -> bool:
    """Wait until the victim is where the fault shall hit it; returns whether it came there."""
    deadline = time.monotonic() + START_SECONDS
    while draw.moment != ANY and f"at {draw.moment}\n" not in victim.output.read_text():
        if victim.popen.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    time.sleep(draw.delay)
    return victim.popen.poll() is None


def inject(draw: Draw, victim: Process, host: Namespace) -> str:
    """Make the fault; returns what shows that it is there."""
    if draw.kind == "cut":
        pull_cable(host)
        with contextlib.suppress(OSError):
            os.write(victim.popen.stdin.fileno(), b"\n")  # type: ignore[union-attr]
        words = host.command("ip", "-o", "link", "show", "dev", DEVICE)
        return " ".join(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[2:9:6])
    victim.popen.send_signal(signal.SIGKILL if draw.kind == "kill" else signal.SIGSTOP)
    if draw.kind == "kill":
        return f"exit code {victim.popen.wait(10)}"
    time.sleep(0.05)
    status = Path(f"/proc/{victim.popen.pid}/status")
    return next((line for line in status.read_text().splitlines() if line.startswith("State:")), "gone")


def await_ends(watched: Sequence[Process], begin: float, give_up_seconds: float) -> None:
    """Note when each has ended. One that has started late, on a busy machine, has as long after that."""
    wall = time.time() - time.monotonic()
    while time.monotonic() < max([begin, *(each.meets - wall for each in watched)]) + give_up_seconds:
        for process in watched:
            if process.seconds is None and process.popen.poll() is not None:
                process.seconds = time.monotonic() - begin
        if all(process.seconds is not None for process in watched):
            return
        time.sleep(0.02)
    for process in watched:
        if process.popen.poll() is None:
            process.popen.send_signal(signal.SIGABRT)  # Python then prints where its threads are
            process.popen.wait(10)


def complaints(draw: Draw, rank: int, process: Process, late: float) -> Iterator[str]:
    """A line for each thing that a process did not do as promised after the fault."""
    text = process.errors.read_text()
    errors = errors_in(text)
    never_came = draw.moment in (*JOINS, ANY) and any(re.search(r"reach(ed)? rank", line) for line in errors)
    limit = late if never_came else DEATH_SECONDS if draw.kind == "kill" else SILENCE_SECONDS
    if process.seconds is None or process.seconds > limit:
        yield f"rank {rank} ended after {process.seconds} s"
    if process.popen.returncode == 0 and not errors and _may_end_well(draw, rank):
        return
    if process.popen.returncode != 1:
        yield f"rank {rank} ended with the code {process.popen.returncode}"
    if len(errors) != 1 or not any(_names(errors[0], gone, draw, never_came) for gone in draw.gone[rank]):
        yield f"rank {rank} said {text[-6000:]}"
    yield from (f"rank {rank} printed {noise!r}: {text[-6000:]}" for noise in _NOISE if noise in text)


def _may_end_well(draw: Draw, rank: int) -> bool:
    """Whether all others of a process had said that they ended well before it lost them."""
    is_beside_victim = draw.rank not in draw.gone[rank]
    return draw.moment == "leaving" or (draw.moment == "at the end" and is_beside_victim)


def errors_in(text: str) -> list[str]:
    """The first lines of our errors. Those of one traceback are one error: a framework may carry ours through its own."""
    lines = [
        re.sub(r"^\[rank\d+\]: ", "", line) for line in text.splitlines()
    ]  # torch puts it before lines of a traceback
    reported = [line for line in lines if re.match("abreast: .*rank", line) and " waits for rank" not in line]
    raised = [line for line in lines if re.match(r"abreast\.errors\.\w+: .*rank", line)]
    return [*reported, *raised[-1:]]


def _names(error: str, gone: int, draw: Draw, never_came: bool) -> bool:
    if never_came:  # nobody knows its host
        return (
            re.search(rf"has not reached rank {gone} at|ranks? [\d, ]*\b{gone}\b[\d, ]* of \d+ did not reach", error)
            is not None
        )
    return f"rank {gone} on host " in error and ("has died" if draw.kind == "kill" else "has been silent for") in error


def summary(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Draws and those as promised, and seconds until a process has ended, per kind and for each backend, moment and shape."""
    table: dict[str, Any] = {"draws": len(found), "as_promised": sum(not each["wrong"] for each in found)}
    for kind in KINDS:
        ours = [each for each in found if each["kind"] == kind and each["moment"] not in (*JOINS, ANY)]
        table[f"{kind}, after the meeting"] = _times(ours)
        ours = [each for each in found if each["kind"] == kind and each["moment"] in (*JOINS, ANY)]
        table[f"{kind}, before it or at any time"] = _times(ours)
    for name in ("backend", "moment", "shape"):
        counts = Counter(each[name] for each in found)
        table[name] = {
            key: [counts[key], sum(not each["wrong"] for each in found if each[name] == key)] for key in counts
        }
    return table


def _times(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    seconds = sorted(each for one in found for each in one["seconds"] if each is not None)
    if not seconds:
        return {"draws": len(found)}
    p99 = seconds[min(len(seconds) - 1, int(0.99 * len(seconds)))]
    return {
        "draws": len(found),
        "p50_seconds": round(statistics.median(seconds), 2),
        "p99_seconds": p99,
        "max_seconds": seconds[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER")
    parser.add_argument("--step", type=int, default=1, help="make every N-th draw only")
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-watch", action="store_true")
    options = parser.parse_args()
    found = []
    for number in range(options.first, options.first + options.count * options.step, options.step):
        found.append(trial(Draw.of(options.seed, number, options.backends), watch=not options.no_watch))
        print(json.dumps({"seed": options.seed, **found[-1]}), flush=True)
    print(json.dumps({"seed": options.seed, **summary(found)}), flush=True)


if __name__ == "__main__":
    main()
