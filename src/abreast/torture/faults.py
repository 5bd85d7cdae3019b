"""The faults in a start of the script, and for each the proof that it has fired.

`disturb` waits for the start's end. Not here: the checks after it (`rounds.py`).
"""

from __future__ import annotations

import random
import signal
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

from abreast.asked_to_end import EXIT_CODE
from abreast.checkpoints.folder import checkpoint_names
from abreast.checkpoints.names import is_final
from abreast.torture.file_faults import FilePlan
from abreast.torture.start import Start

_NO_ROOM = "No space left on device"
# Kills and signals come in this share of all cases while the script starts, before its first `fit`.
_EARLY = 0.15
_MOST_SAVES = 2  # a fault hits one of this many first saves of a start
_CALLS_OF_REMOVAL = 6  # additional calls of a save that removes an older checkpoint
_PAUSE_SECONDS = (0.1, 0.6)
_SHARE = 0.6  # of the seconds of all fits: a resumed start has fewer


@dataclass
class Injection:
    """One fault: its kind, its action, whether it fired, and the problems after it.

    `late`: its signal came after the end of the script, when signals have their default action again.
    """

    fault: str
    how: str
    fired: bool = False
    late: bool = False
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Facts:
    """The measurements of the undisturbed start: seconds, steps of all fits, and the file calls of a save.

    `deterministic_kernels`: its GPUs ran deterministic kernels.
    """

    start_seconds: float
    fit_seconds: float
    steps: int
    calls: int
    writes: int
    deterministic_kernels: bool = False


def plan(fault: str, rng: random.Random, facts: Facts) -> FilePlan | None:
    """The plan for a fault in file calls, with which a start begins; None for other faults."""
    save = rng.randint(1, _MOST_SAVES)
    if fault == "save":
        call = rng.randint(1, facts.calls + _CALLS_OF_REMOVAL)
        return FilePlan(rng.choice(("kill", "power")), save, call, rng.randrange(10**6))
    if fault == "disk":
        return FilePlan("full", save, rng.randint(1, facts.writes), rng.randrange(10**6))
    return None


def is_last(fault: str, how: str) -> bool:
    """Whether a start continues to its end after the fault."""
    return fault == "disk" or how == "SIGSTOP"


def ways(fault: str) -> tuple[str, ...]:
    return {"kill": ("SIGKILL",), "stop": ("SIGTERM", "SIGSTOP"), "flip": ("a flipped bit",)}.get(fault, ("",))


def disturb(start: Start, injection: Injection, rng: random.Random, facts: Facts) -> int:
    """Cause the fault, wait for the end of the start, and return its exit code."""
    act = {"kill": _kill, "save": _save, "stop": _stop, "disk": _disk, "flip": _kill_with_two_checkpoints}
    return act[injection.fault](start, injection, rng, facts)


def _kill(start: Start, injection: Injection, rng: random.Random, facts: Facts) -> int:
    if not _moment(start, rng, facts):
        return start.process.wait()
    code = start.kill()
    injection.fired = code == -signal.SIGKILL
    return code


def _save(start: Start, injection: Injection, rng: random.Random, facts: Facts) -> int:
    code = start.process.wait()
    if fired := start.notes("fired"):
        injection.fired = code == -signal.SIGKILL
        injection.how += f" ({fired[0].value})"
    return code


def _disk(start: Start, injection: Injection, rng: random.Random, facts: Facts) -> int:
    code = start.process.wait()
    injection.fired = bool(start.notes("fired"))
    if injection.fired and _NO_ROOM not in start.said():
        injection.problems.append(f"nothing was said about {_NO_ROOM!r}")
    return code


def _stop(start: Start, injection: Injection, rng: random.Random, facts: Facts) -> int:
    if not _moment(start, rng, facts):
        return start.process.wait()
    if injection.how == "SIGSTOP":
        injection.fired = start.pause(rng.uniform(*_PAUSE_SECONDS))
        return start.process.wait()
    start.process.send_signal(signal.SIGTERM)
    code = start.process.wait()
    injection.fired = code == EXIT_CODE
    injection.late = code == -signal.SIGTERM and bool(start.notes("unwatched"))
    if code not in (0, EXIT_CODE) and not injection.late:
        injection.problems.append(f"SIGTERM ended the script with {code}, not with {EXIT_CODE}")
    return code


def _kill_with_two_checkpoints(start: Start, injection: Injection, rng: random.Random, facts: Facts) -> int:
    """Kill as soon as a running fit has two checkpoints: one can then be damaged, and the other one used."""
    folder = str(start.spec.checkpoints)
    if not start.wait_for(lambda: len(_of_running_fit(folder)) > 1 and len(start.notes("saved")) > 1):
        return start.process.wait()
    return start.kill()


def flip(folder: str, injection: Injection, rng: random.Random, damaged: Container[str]) -> Path | None:
    """Flip one bit of the newest checkpoint, if an older one is whole; returns the file, or None."""
    names = [name for name in _of_running_fit(folder) if name not in damaged]
    if len(names) < 2:
        return None
    files = sorted(each for each in (Path(folder) / names[-1]).iterdir() if each.is_file())
    place = rng.randrange(sum(each.stat().st_size for each in files))
    for file in files:
        size = file.stat().st_size
        if place < size:
            injection.fired = _flip_bit(file, place, rng.randrange(8))
            injection.how = f"bit flipped in byte {place:,} of {file.name} of {names[-1]}"
            return file
        place -= size
    return None


def _flip_bit(file: Path, byte: int, bit: int) -> bool:
    before = file.read_bytes()[byte]
    with open(file, "r+b") as opened:
        opened.seek(byte)
        opened.write(bytes([before ^ (1 << bit)]))
    return file.read_bytes()[byte] != before


def _of_running_fit(folder: str) -> list[str]:
    """The checkpoints of the newest fit; none if that fit has ended."""
    names = checkpoint_names(folder)
    newest = [name for name in names if name.partition("-")[0] == names[-1].partition("-")[0]]
    return [] if any(is_final(name) for name in newest) else newest


def _moment(start: Start, rng: random.Random, facts: Facts) -> bool:
    """Wait for a random moment: at start-up, in a fit, or after a save. False if the start has ended before."""
    if not start.wait_for(lambda: bool(start.notes("ready"))):
        return False
    if rng.random() < _EARLY:
        return start.sleep(rng.random() * facts.start_seconds)
    if not start.wait_for(lambda: bool(start.notes("fit"))):
        return False
    if rng.random() < 0.5:
        return start.sleep(rng.random() * facts.fit_seconds * _SHARE)
    saves = rng.randint(1, _MOST_SAVES)
    is_saved = start.wait_for(lambda: len(start.notes("saved")) >= saves)
    return is_saved and start.sleep(rng.random() * facts.fit_seconds / 20)
