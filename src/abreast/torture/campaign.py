"""The order of all runs: one undisturbed, one with checkpoints alone, one on each other number of devices, and the rounds.

All other runs are compared with the run without checkpoints, so that an effect of saving itself is found, too.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abreast import deterministic
from abreast.checking.compare import Ruler, coarsest, compare, when
from abreast.checking.log import Event
from abreast.errors import LaunchError
from abreast.run import RunOptions
from abreast.torture.faults import Facts
from abreast.torture.rounds import Round, Training
from abreast.torture.side import MEASURED, StartSpec
from abreast.torture.start import Start, started

_SAVES = 12  # saves of a whole training, if the user sets no interval
_MOST_FAULTS = 4  # faults of one round
_SHOWN = 2000


@dataclass(frozen=True)
class Request:
    """A request for `rounds` rounds, or as many as begin within `minutes`. `placements[0]` is for the undisturbed run."""

    spec: StartSpec
    placements: tuple[RunOptions, ...]
    faults: tuple[str, ...]
    seed: int
    rounds: int | None
    minutes: float | None

    def on_gpus(self) -> bool:
        """Whether the runs are to be on GPUs, with deterministic kernels."""
        return self.placements[0].on_gpus()


@dataclass
class Campaign:
    """The findings. `alone`: problems of an undisturbed run with checkpoints."""

    request: Request
    alone: list[str] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    seconds: float = 0.0
    every: int | str = ""
    deterministic_kernels: bool = False

    @property
    def never_fired(self) -> list[str]:
        """The faults that were tried but never fired."""
        tried = [each for one in self.rounds for each in one.injections]
        faults = dict.fromkeys(each.fault for each in tried)
        never = [fault for fault in faults if not any(each.fired for each in tried if each.fault == fault)]
        elastic = [each for each in self.rounds if not each.same_devices]
        if elastic and not any(len(set(each.devices)) > 1 for each in elastic):
            never.append("devices")
        return never

    @property
    def is_wrong(self) -> bool:
        return bool(self.alone or self.never_fired or any(each.is_wrong for each in self.rounds))


def torture(request: Request, place: Path, tell: Callable[[str], None]) -> Campaign:
    """Run the campaign in a new folder. Raises `LaunchError` if the script fails undisturbed, or does not repeat itself."""
    begin = time.monotonic()
    runs = _Undisturbed(request, place)
    expected = runs.plain("undisturbed", request.placements[0])
    tell(f"the undisturbed run took {time.monotonic() - begin:.0f} s, with {_num_fits(expected)}")
    facts, measured = runs.measured()
    found = Campaign(request, every=_every(request, facts), deterministic_kernels=facts.deterministic_kernels)
    if (unequal := _unequal(expected, measured)) is not None:
        if _unequal(expected, runs.plain("again", request.placements[0])) is not None:
            raise LaunchError(f"the script does not compute the same twice, undisturbed: {unequal}", _remedy(request))
        found.alone.append(f"with checkpoints it ends differently: {unequal}")
        return found
    ruler = runs.ruler(expected) if "devices" in request.faults else None
    for one, chosen in _rounds(request):
        if request.minutes is not None and time.monotonic() - begin > 60 * request.minutes:
            break
        began = time.monotonic()
        _training(found, facts, one, place / f"round-{one.number}", _judge(expected, one, ruler)).run(chosen)
        one.seconds = time.monotonic() - began
        found.rounds.append(one)
        tell(_line(one))
    found.seconds = time.monotonic() - begin
    return found


def _remedy(request: Request) -> str:
    """The remedy for a script that does not repeat itself."""
    seed = "seed what it draws: keras.utils.set_random_seed(1)"
    return f"{seed}; or it uses {deterministic.NO_FORM}: try --cpu-devices 2" if request.on_gpus() else seed


def _training(
    found: Campaign, facts: Facts, one: Round, folder: Path, judge: Callable[[list[Event]], list[str]]
) -> Training:
    """The training of a round, in a folder of its own."""
    request = found.request
    placements = request.placements[:1] if one.same_devices else request.placements
    checkpoints = str(folder / "checkpoints")
    spec = dataclasses.replace(request.spec, folder=str(folder), checkpoints=checkpoints, every=found.every)
    return Training(spec, placements, facts, one, judge)


def _judge(expected: list[Event], one: Round, ruler: Ruler | None) -> Callable[[list[Event]], list[str]]:
    """A function that compares the end of a round, and returns its problems."""

    def judge(events: list[Event]) -> list[str]:
        problem = _unequal(expected, events) if one.same_devices else _far(expected, events, ruler)
        return [] if problem is None else [problem]

    return judge


def _rounds(request: Request) -> Iterator[tuple[Round, list[str]]]:
    """Rounds and their faults. Each fault comes in turn; every second round changes its devices."""
    rng = random.Random(request.seed)
    faults = [fault for fault in request.faults if fault != "devices"] or ["kill"]
    in_turn = itertools.chain.from_iterable(rng.sample(faults, len(faults)) for _ in itertools.count())
    numbers = itertools.count(1) if request.rounds is None else range(1, request.rounds + 1)
    for number in numbers:
        is_same = "devices" not in request.faults or number % 2 == 1
        if request.faults == ("devices",):
            is_same = False
        yield Round(number, f"{request.seed} {number}", is_same), list(itertools.islice(in_turn, _MOST_FAULTS))


class _Undisturbed:
    """Starts without faults."""

    def __init__(self, request: Request, place: Path) -> None:
        self._request, self._place = request, place

    def plain(self, name: str, options: RunOptions) -> list[Event]:
        """The events of a run without checkpoints."""
        return self._run(name, options)[1]

    def measured(self) -> tuple[Facts, list[Event]]:
        """Facts and events of a run with checkpoints, in which only the last one of each fit is due."""
        start, events = self._run("measured", self._request.placements[0], checkpoints=str(self._place / "measured-c"))
        calls = [note.value for note in start.notes("calls")]
        first = start.notes("fit")[0].seconds
        facts = Facts(
            start_seconds=first - start.begun_seconds,
            fit_seconds=start.notes("fit ended")[-1].seconds - first,
            steps=sum(note.value for note in start.notes("steps")),
            calls=max((each["all"] for each in calls), default=0),
            writes=max((each["writes"] for each in calls), default=0),
            deterministic_kernels=any(note.value for note in start.notes("deterministic")),
        )
        if not calls or not facts.steps:
            raise LaunchError(
                "no fit of the script trains a model on the devices", "torture a script that trains by fit"
            )
        return facts, events

    def ruler(self, expected: list[Event]) -> Ruler:
        """The distances of the undisturbed ends on other numbers of devices from the expected end."""
        found = Ruler()
        for number, options in enumerate(self._request.placements[1:]):
            other = Ruler.of(expected, self.plain(f"other-{number}", options))
            found.seen |= {key: max(value, found.seen.get(key, 0.0)) for key, value in other.seen.items()}
        return found

    def _run(self, name: str, options: RunOptions, checkpoints: str | None = None) -> tuple[Start, list[Event]]:
        spec = dataclasses.replace(
            self._request.spec,
            folder=str(self._place / name),
            options=options,
            checkpoints=checkpoints,
            every=MEASURED,
            broken="",
        )
        with started(spec) as start:
            code = start.process.wait()
        if code != 0:
            raise LaunchError(
                f"undisturbed, the script ended with {code}:\n{start.said()[-_SHOWN:]}", "let it run first"
            )
        if not start.notes("fit"):
            raise LaunchError("the script calls no fit", "torture a script that trains by fit")
        return start, start.events()


def _every(request: Request, facts: Facts) -> int | str:
    given = request.spec.every
    return max(1, facts.steps // _SAVES) if given == "" else given


def _num_fits(events: list[Event]) -> str:
    count = sum(event.kind == "history" for event in events)
    return f"{count} fit" if count == 1 else f"{count} fits"


def _unequal(expected: list[Event], events: list[Event]) -> str | None:
    """The first event that is not equal bit for bit; None if all are."""
    for one, other in itertools.zip_longest(expected, events):
        if one is None or other is None:
            return f"it has {len(events)} events, and not {len(expected)}"
        if (one.key, one.batch) != (other.key, other.batch):
            difference, _ = compare(expected, events, coarsest(["float64"]))
            worst = "" if difference is None or difference.worst is None else f" ({_described(difference.worst)})"
            return f"{when(*one.key)} is not equal bit for bit{worst}"
    return None


def _far(expected: list[Event], events: list[Event], ruler: Ruler | None) -> str | None:
    """The first event that rounding does not explain; None if rounding explains all."""
    if len(expected) != len(events):
        return f"it has {len(events)} events, and not {len(expected)}"
    difference, _ = compare(expected, events, coarsest(["float32"]), ruler)
    if difference is None:
        return None
    what = difference.note if difference.worst is None else _described(difference.worst)
    return f"{when(difference.event, difference.call, difference.step)} is not equal: {what}"


def _described(worst: Any) -> str:
    return f"{worst.name}: {worst.plain:.9g} and {worst.placed:.9g}, {worst.difference:.3g} apart at most"


def _line(one: Round) -> str:
    hows = ", ".join(f"{each.how}{'' if each.fired else ' (did not fire)'}" for each in one.injections)
    devices = "" if one.same_devices else f" on {', '.join(map(str, one.devices))} devices"
    end = "wrong" if one.is_wrong else "ended equal" if one.same_devices else "ended equal within rounding"
    return f"round {one.number}: {one.starts} starts{devices} in {one.seconds:.0f} s; {hows}; {end}"
