"""SIGKILL at random moments of a job under `--max-restarts`: it ends by itself, with what an undisturbed run computes.

`python -m tests.checkpoints.random_kills --count 200 --backends jax,tensorflow,torch --seed 1` prints one JSON line per job, and
appends them to `--output FILE`. The script's process is killed, not its supervisor. The first kill of a job comes at any moment
after its start; each later one after a new checkpoint, since the supervisor rightly gives up after two crashes without one.
`--backends light` runs a script without a framework, which takes little time.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from abreast.checkpoints.write import PART
from tests.checkpoints.signals import Training, asked, differences, read, shares, undisturbed

_JOB_SECONDS = 1800.0
_LOOK_SECONDS = 0.002
_DELAY_SECONDS = 0.6  # the longest time from a new checkpoint to the kill: some steps, saves and a validation
_RESTARTED = "the script was ended by SIGKILL; it starts again"


@dataclass
class Job:
    """One training: the phases in which kills came, and what is wrong."""

    backend: str
    seed: str
    kills: int = 0
    phases: list[str] = field(default_factory=list)
    while_saving: int = 0  # kills that left a checkpoint half written
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def job(training: Training, found: Job, most: int, start_seconds: float) -> None:
    """Run the training under its supervisor, kill the script up to `most` times, and wait for the end."""
    rng = random.Random(found.seed)
    place = training.command.index("--checkpoint")
    training.command[place:place] = ["--max-restarts", "100000"]
    begin = time.monotonic()
    with training.started() as supervisor:
        with contextlib.suppress(StopIteration):
            while found.kills < most:
                _kill(training, supervisor, rng, found, start_seconds)
        try:
            code = supervisor.wait(_JOB_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
    found.seconds = round(time.monotonic() - begin, 1)
    if code != 0:
        found.problems.append(f"the job ended with {code}: {training.said()[-2000:]}")


def _kill(
    training: Training, supervisor: subprocess.Popen[bytes], rng: random.Random, found: Job, start_seconds: float
) -> None:
    """One kill that the supervisor has seen. Raises `StopIteration` if the job has come to its end before."""
    folder = training.folder.path / "ckpt"
    children: list[int] = []

    def goes_on() -> bool:
        return supervisor.poll() is None and not training.result.exists()

    def starts() -> bool:
        children[:] = _children(supervisor.pid)
        return bool(children)

    before = _newest(folder)
    _wait(starts, goes_on)
    child = children[0]
    if found.kills:
        _wait(lambda: _newest(folder) != before, goes_on)
    time.sleep(rng.random() * (_DELAY_SECONDS if found.kills else start_seconds))
    if not goes_on() or _children(supervisor.pid) != [child]:
        raise StopIteration
    os.kill(child, signal.SIGKILL)
    _wait(lambda: training.said().count(_RESTARTED) > found.kills, lambda: supervisor.poll() is None)
    found.kills += 1
    found.phases.append(training.notes()[-1][0] if training.notes() else "start")
    found.while_saving += any(name.endswith(PART) for name in _names(folder))


def _wait(until: Callable[[], bool], goes_on: Callable[[], bool]) -> None:
    end = time.monotonic() + _JOB_SECONDS
    while not until():
        if not goes_on() or time.monotonic() > end:
            raise StopIteration
        time.sleep(_LOOK_SECONDS)


def _children(parent: int) -> list[int]:
    """The living processes that a supervisor has started."""
    try:
        words = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return [int(word) for word in words if "(zombie)" not in Path(f"/proc/{word}/status").read_text()]
    except OSError:
        return []


def _newest(folder: Path) -> str | None:
    return max((name for name in _names(folder) if name.startswith("fit")), default=None)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def campaign(
    backend: str, count: int, seed: int, place: Path, devices: int = 2, every: str = "2", output: Path | None = None
) -> list[Job]:
    """At least `count` kills on one backend, in as many jobs as that takes. Lines of JSON go to stdout and `output`."""
    expected, times = undisturbed(Training(backend, place / "undisturbed", devices, every))
    seconds = sum(times[phase][0] for phase in ("start", "import", "build", "between", "compile"))
    jobs: list[Job] = []
    while (missing := count - sum(each.kills for each in jobs)) > 0:
        training = Training(backend, place / str(len(jobs)), devices, every)
        found = Job(backend, f"{seed} {backend} {len(jobs)}")
        job(training, found, missing, seconds)
        if training.result.exists():
            found.problems += differences(expected, read(training.result))
        jobs.append(found)
        line = json.dumps(asdict(found))
        print(line, flush=True)
        if output:
            with open(output, "a") as file:
                file.write(line + "\n")
    return jobs


def summary(jobs: list[Job]) -> str:
    kills, good = sum(each.kills for each in jobs), sum(not each.problems for each in jobs)
    phases = Counter(phase for each in jobs for phase in each.phases)
    return (
        f"{kills} kills in {len(jobs)} jobs, {sum(each.while_saving for each in jobs)} of them while a checkpoint was written; "
        f"by phase {dict(phases.most_common())}; {good} of {len(jobs)} jobs ended as the undisturbed run"
    )


def main() -> int:
    options = asked(__doc__, every="2")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # ends what was started, too
    jobs: list[Job] = []
    for backend, count, place in shares(options):
        jobs += campaign(backend, count, options.seed, place, options.devices, options.every, options.output)
    print(summary(jobs))
    return 1 if any(each.problems for each in jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
