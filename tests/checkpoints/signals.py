"""SIGTERM and SIGUSR1 at random moments of a training: it ends with 75 in time, goes on, and ends as if nothing was.

`python -m tests.checkpoints.signals --count 200 --backends jax,tensorflow,torch --seed 1` prints one table, and JSON lines with
`--output FILE`. A phase is chosen first, and then a moment in it, so that short phases are met, too.
`--backends light` runs a script without a framework, which takes little time.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from abreast.text_table import text_table
from tests.harness.client import BACKENDS, ROOT
from tests.harness.folder import Folder

SCRIPT = ROOT / "tests" / "checkpoints" / "scripts" / "two_phases.py"
LIGHT = "light"  # in place of a backend: a script without a framework
PHASES = ("start", "import", "build", "between", "compile", "steps", "validation", "epoch end")
_LIMIT_SECONDS = 10.0
_RUN_SECONDS = 500.0
_MOST_SIGNALS = 8  # of one training


@dataclass
class Draw:
    """One signal: when it came, and what followed."""

    backend: str
    training: int
    number: str
    to: str  # the process, or its group, with PyTorch's workers, as Slurm sends it
    phase: str  # in which it came
    seconds: float = 0.0  # from the signal to the end of the process
    steps: int = 0  # that ended after it
    code: int = 0
    said: str = ""
    problems: list[str] = field(default_factory=list)


class Training:
    """One training of the script, which is started until it has ended by itself."""

    def __init__(self, backend: str, place: Path, devices: int, every: str) -> None:
        place.mkdir()
        self.backend, self.folder = backend, Folder(place)
        self.log, self.result = place / "log", place / "result.npz"
        self.environ = {
            "OMP_NUM_THREADS": "1",
            "JAX_PLATFORMS": "cpu",
            # Starts are most of the time: Keras would import other frameworks, too, and JAX would compile anew each time.
            "HIDDEN_PACKAGES": " ".join(name for name in BACKENDS if name != backend),
            "JAX_COMPILATION_CACHE_DIR": str(place.parent / "programs"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        words = ["--checkpoint", "ckpt", "--checkpoint-every", every]
        if backend != LIGHT:
            words += ["--backend", backend, "--cpu-devices", str(devices)]
        script = str(SCRIPT.with_name("light.py") if backend == LIGHT else SCRIPT)
        self.command = [sys.executable, "-m", "abreast", "run", "--quiet", *words, script, "log", "result.npz"]

    @contextlib.contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        with open(self.folder.path / "err", "wb") as err:
            environ = self.folder.environ(**self.environ)
            process = subprocess.Popen(
                self.command, cwd=self.folder.path, env=environ, stderr=err, stdout=err, start_new_session=True
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def said(self) -> str:
        return (self.folder.path / "err").read_text(errors="replace")

    def notes(self) -> list[tuple[str, float]]:
        """The phases that have begun, with their times."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(line.rpartition(" ")[0], float(line.rpartition(" ")[2])) for line in lines]


def undisturbed(training: Training) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """What the script computes, and how long each visit of a phase takes."""
    begin = time.monotonic()
    with training.started() as process:
        code = process.wait(_RUN_SECONDS)
    assert code == 0, training.said()
    notes = [("start", begin), *training.notes()]
    seconds: dict[str, list[float]] = {}
    for (phase, since), (_, until) in itertools.pairwise(notes):
        seconds.setdefault(phase, []).append(until - since)
    return read(training.result), seconds


def disturbed(training: Training, number: int, seconds: dict[str, list[float]], rng: random.Random) -> list[Draw]:
    """Signals at random moments of the same training, until it has ended by itself or has had enough; then its end."""
    draws: list[Draw] = []
    while len(draws) < _MOST_SIGNALS and not training.result.exists():
        kind = rng.choice(("SIGTERM", "SIGUSR1")), rng.choice(("process", "group"))
        draw = Draw(training.backend, number, *kind, "none")
        _disturb(training, draw, seconds, rng)
        if draw.phase != "none":
            draws.append(draw)
            print(json.dumps(asdict(draw)), file=sys.stderr, flush=True)
    if not training.result.exists():
        with training.started() as process:
            code = process.wait(_RUN_SECONDS)
        if code != 0:
            draws[-1].problems.append(f"the last start ended with {code}: {training.said()[-2000:]}")
    return draws


def _disturb(training: Training, draw: Draw, seconds: dict[str, list[float]], rng: random.Random) -> None:
    """Start once more, and send one signal in a random phase, if the script gets there."""
    phase = rng.choice([name for name in PHASES if name in seconds])
    visit = rng.randrange(len(seconds[phase]))
    delay = rng.random() * seconds[phase][visit]
    old = len(training.notes())
    with training.started() as process:
        if not _wait_for(training, process, phase, visit, old):
            code = process.wait(_RUN_SECONDS)
            if code != 0:
                draw.phase, draw.code = "a whole start", code
                draw.problems.append(f"a start without a signal ended with {code}: {training.said()[-2000:]}")
            return
        time.sleep(delay)
        if process.poll() is not None or training.result.exists():
            return
        (os.killpg if draw.to == "group" else os.kill)(process.pid, getattr(signal, draw.number))
        sent = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_RUN_SECONDS)
        draw.seconds, draw.code = time.monotonic() - sent, process.returncode
    notes = training.notes()[old:]
    draw.phase = next((name for name, since in reversed(notes) if since <= sent), "start")
    draw.steps = sum(name == "steps" for name, since in notes if since > sent)
    _judge(training, draw)


def _wait_for(training: Training, process: subprocess.Popen[bytes], phase: str, visit: int, old: int) -> bool:
    """Whether this start has come to a visit of the phase."""
    while process.poll() is None:
        if phase == "start":
            if takes_signals(process.pid):
                return True
        elif [name for name, _ in training.notes()[old:]].count(phase) > visit:
            return True
        time.sleep(0.01)
    return False


def takes_signals(process: int) -> bool:
    """Whether a process has a handler of SIGTERM."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/status") as file:
        caught = next(line for line in file if line.startswith("SigCgt")).split()[1]
        return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)
    return False


def _judge(training: Training, draw: Draw) -> None:
    ours = [line for line in training.said().splitlines() if line.startswith("abreast: SIG")]
    draw.said = ours[-1] if ours else ""
    if draw.code == 0 and training.result.exists():
        draw.phase = "done"  # the training had ended when the signal was looked at
    elif draw.code != 75:
        draw.problems.append(f"exit code {draw.code}: {training.said()[-2000:]}")
    elif draw.number not in draw.said:
        draw.problems.append(f"no line names {draw.number}: {training.said()[-2000:]}")
    ends_after_step = "saved as" in draw.said  # which may take long, as the first one, which compiles
    if draw.steps > 1 or (draw.seconds > _LIMIT_SECONDS and not ends_after_step):
        draw.problems.append(f"{draw.steps} steps and {draw.seconds:.1f} s from the signal to the end")


def read(result: Path) -> dict[str, Any]:
    with np.load(result) as found:
        return {name: found[name] for name in found.files}


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The arrays that are not equal bit for bit, and whether the histories are."""
    names = [name for name in one if name != "history" and not np.array_equal(one[name], other[name], equal_nan=True)]
    problems = []
    if one.keys() != other.keys():
        problems.append(f"other variables: {sorted(one.keys() ^ other.keys())}")
    if names:
        most = max(float(np.abs(one[name].astype(float) - other[name]).max()) for name in names)
        problems.append(f"{len(names)} of {len(one) - 1} variables differ, by {most:.3g} at most")
    if str(one["history"]) != str(other["history"]):
        problems.append(
            f"History differs: {_where(json.loads(str(one['history'])), json.loads(str(other['history'])))}"
        )
    return problems


def _where(one: Any, other: Any) -> str:
    for number, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        for name in mine.keys() | theirs.keys():
            if mine.get(name) != theirs.get(name):
                return f"fit {number}, {name}: {mine.get(name)} and {theirs.get(name)}"
    return f"{len(one)} and {len(other)} fits"


def campaign(backend: str, count: int, seed: int, place: Path, devices: int = 2, every: str = "3") -> list[Draw]:
    """At least `count` signals on one backend."""
    rng = random.Random(f"{seed} {backend}")
    expected, seconds = undisturbed(Training(backend, place / "undisturbed", devices, every))
    draws: list[Draw] = []
    number = 0
    while len(draws) < count:
        training = Training(backend, place / str(number), devices, every)
        found = disturbed(training, number, seconds, rng)
        if found and training.result.exists():
            found[-1].problems += differences(expected, read(training.result))
            print(f"training {number} has ended, {found[-1].problems or 'equal'}", file=sys.stderr, flush=True)
        draws += [draw for draw in found if draw.phase != "done"]
        number += 1
    return draws


def table(draws: list[Draw]) -> str:
    rows = [("phase", "signals", "good", "saved for it", "longest, s")]
    for phase in (*PHASES, "a whole start", "all"):
        here = [draw for draw in draws if phase in (draw.phase, "all")]
        if here:
            good = sum(not draw.problems for draw in here)
            saved = sum("saved as" in draw.said for draw in here)
            longest = max(draw.seconds for draw in here)
            rows.append((phase, str(len(here)), str(good), str(saved), f"{longest:.2f}"))
    return text_table(rows)


def asked(description: str | None, every: str) -> argparse.Namespace:
    """The options of a campaign, and a line with its seed; `every`: the default of the steps between two checkpoints."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--every", default=every, help="steps between two checkpoints")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    return options


def shares(options: argparse.Namespace) -> Iterator[tuple[str, int, Path]]:
    """Each backend of a campaign, with its part of the count and a folder of its own."""
    names = options.backends.split(",")
    with tempfile.TemporaryDirectory(prefix="abreast-campaign-") as folder:
        for backend in names:
            place = Path(folder) / backend
            place.mkdir()
            yield backend, -(-options.count // len(names)), place


def main() -> int:
    options = asked(__doc__, every="3")
    draws: list[Draw] = []
    for backend, count, place in shares(options):
        draws += campaign(backend, count, options.seed, place, options.devices, options.every)
    if options.output:
        with open(options.output, "a") as file:
            file.writelines(json.dumps({"seed": options.seed, **asdict(draw)}) + "\n" for draw in draws)
    print(table(draws))
    kinds = Counter(f"{draw.backend}, {draw.number} to the {draw.to}" for draw in draws)
    print("\n".join(f"{number:5} {kind}" for kind, number in sorted(kinds.items())))
    return 1 if any(draw.problems for draw in draws) else 0


if __name__ == "__main__":
    sys.exit(main())
