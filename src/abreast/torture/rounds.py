"""One training in a fresh folder, started again and again with faults until it ends, and the checks after each fault.

After a fault, every checkpoint must be whole, no saved one may be lost, and the next start must continue from the newest one. A
flipped bit must be reported with its file. At the end, `judge` compares the result.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from abreast.checking.log import Event
from abreast.checkpoints.folder import checkpoint_names
from abreast.checkpoints.read import read_checkpoint
from abreast.errors import CheckpointError
from abreast.run import RunOptions
from abreast.torture import faults
from abreast.torture.faults import Facts, Injection
from abreast.torture.side import StartSpec
from abreast.torture.start import Start, started

_NO_ROOM_CODES = (1, 2)  # the last save of a fit raises
_SHOWN = 1500


@dataclass
class Round:
    """The record of one training. `problems`: the problems of its end."""

    number: int
    seed: str
    same_devices: bool
    injections: list[Injection] = field(default_factory=list)
    devices: list[int] = field(default_factory=list)  # of each start that trained
    starts: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def is_wrong(self) -> bool:
        return bool(self.problems) or any(each.problems for each in self.injections)


class Training:
    """The starts of one round. `judge` compares the end of the last start, and returns its problems."""

    def __init__(
        self,
        spec: StartSpec,
        placements: Sequence[RunOptions],
        facts: Facts,
        found: Round,
        judge: Callable[[list[Event]], list[str]],
    ) -> None:
        self._spec, self._placements, self._facts = spec, placements, facts
        self._found, self._judge = found, judge
        self._rng = random.Random(found.seed)
        self._folder = Path(spec.folder)
        self._checkpoints = str(spec.checkpoints)
        self._damaged: dict[str, Path] = {}  # by name: the file with the flipped bit
        self._unnamed: list[str] = []  # damaged ones that no start has met
        self._before: Injection | None = None  # of the start before
        self._last: RunOptions | None = None

    def run(self, chosen: Sequence[str]) -> None:
        """Make starts with one fault after the other, and then a start without a fault."""
        for injection in self._in_order(chosen):
            if self._start(injection):
                return
        self._start(None)

    def _in_order(self, chosen: Sequence[str]) -> list[Injection]:
        """The chosen faults in random order; faults after which a start continues to its end come last."""
        drawn = [Injection(fault, self._rng.choice(faults.ways(fault))) for fault in chosen]
        self._rng.shuffle(drawn)
        return sorted(drawn, key=lambda each: faults.is_last(each.fault, each.how))

    def _start(self, injection: Injection | None) -> bool:
        """One start; returns whether the training is over."""
        plan = None if injection is None else faults.plan(injection.fault, self._rng, self._facts)
        self._found.starts += 1
        spec = dataclasses.replace(
            self._spec,
            folder=str(self._folder / f"start-{self._found.starts}"),
            options=self._placement(),
            plan=plan,
        )
        whole = self._whole_names()
        with started(spec) as start:
            if injection is None:
                code = start.process.wait()
            else:
                injection.how = str(plan) if plan else injection.how
                self._found.injections.append(injection)
                code = faults.disturb(start, injection, self._rng, self._facts)
            self._after(start, injection, code, whole)
        return code == 0 or self._found.is_wrong

    def _placement(self) -> RunOptions:
        """Random devices that differ from the previous start's, if possible."""
        others = [each for each in self._placements if each is not self._last] or self._placements
        self._last = self._rng.choice(others)
        return self._last

    def _after(self, start: Start, injection: Injection | None, code: int, whole: list[str]) -> None:
        self._found.devices += [int(note.value) for note in start.notes("devices")][:1]
        problems = self._check_begin(start, whole)
        (self._found if self._before is None else self._before).problems.extend(problems)
        self._before = injection
        if code == 0:
            self._found.problems += self._judge(start.events())
        elif not self._is_of_fault(start, injection, code):
            self._found.problems.append(f"start {self._found.starts} ended with {code}: {start.said()[-_SHOWN:]}")
        if injection is None:
            return
        injection.problems += self._lost(start)
        if injection.fault == "flip" and code != 0:
            self._flip(injection)

    def _is_of_fault(self, start: Start, injection: Injection | None, code: int) -> bool:
        """Whether a fault explains an exit code other than 0."""
        if injection is None:
            return False
        if injection.fault == "disk":
            return injection.fired and code in _NO_ROOM_CODES
        return injection.fired or injection.late or injection.problems != [] or injection.fault == "flip"

    def _lost(self, start: Start) -> list[str]:
        """The problems of the checkpoints' folder after a start."""
        problems = []
        for name in self._names():
            if name in self._damaged:
                continue
            try:
                read_checkpoint(Path(self._checkpoints) / name)
            except CheckpointError as error:
                problems.append(f"the checkpoint {name} is not whole: {error.message}")
        saved = start.notes("saved")
        if saved and saved[-1].value not in self._names():
            problems.append(f"the saved checkpoint {saved[-1].value} is missing")
        return problems

    def _check_begin(self, start: Start, whole: list[str]) -> list[str]:
        """The problems if the start did not continue from the newest whole checkpoint, or did not name a damaged one."""
        problems = []
        for note in start.notes("from"):
            prefix, name = note.value
            newest = max((each for each in whole if each.startswith(prefix)), default="")
            if name != newest:
                problems.append(f"it went on from {name or 'the beginning'}, and the newest whole one was {newest}")
            for damaged in [each for each in self._unnamed if each.startswith(prefix)]:
                self._unnamed.remove(damaged)
                if not _is_reported(start.said(), damaged, self._damaged[damaged]):
                    problems.append(f"nothing was said about the damaged {self._damaged[damaged]}")
        return problems

    def _flip(self, injection: Injection) -> None:
        file = faults.flip(self._checkpoints, injection, self._rng, self._damaged)
        if file is not None:
            self._damaged[file.parent.name] = file
            self._unnamed.append(file.parent.name)

    def _names(self) -> list[str]:
        return checkpoint_names(self._checkpoints)

    def _whole_names(self) -> list[str]:
        names = self._names()
        self._damaged = {name: file for name, file in self._damaged.items() if name in names}
        self._unnamed = [name for name in self._unnamed if name in names]
        return [name for name in names if name not in self._damaged]


def _is_reported(said: str, name: str, file: Path) -> bool:
    """Whether one line reports the checkpoint and its damaged file."""
    lines = [line for line in said.splitlines() if f"the checkpoint {name} cannot be read" in line]
    return any(str(file) in line for line in lines)
