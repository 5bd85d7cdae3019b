"""Finds the first event in which two sides differ, and the size of the difference.

A difference is allowed if rounding explains it: the contract's 1e-5 in float32 and, for weights, a share of the distance
that they have moved. `Ruler` measures how far one rounding of the weights moves each array in this very script.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abreast.checking.log import Entry, Event


@dataclass(frozen=True)
class Precision:
    """The rounding to allow in a type, relative to a result, to a weight's distance from its start, and to one number."""

    result: float
    change: float
    number: float


PRECISIONS = {
    "float64": Precision(1e-10, 1e-7, 2.0**-52),
    "float32": Precision(1e-5, 1e-3, 2.0**-23),
    "float16": Precision(5e-3, 5e-2, 2.0**-10),
    "bfloat16": Precision(5e-2, 3e-1, 2.0**-7),
}
# As in the contract's tests: if larger numbers cancel, a small result is mostly rounding.
SMALLEST_SCALE = 0.1
# Roundings that may add up in one number; the share of the largest change in a group of variables that is allowed to each;
# and the factor on a ruler's random moves, which may be smaller than the worst case.
_NUMBER_TIMES, _GROUP_CHANGE, _RULER_TIMES = 16, 1e-5, 30.0
_SHOWN = 6


@dataclass(frozen=True)
class ArrayDifference:
    """One array that differs, and its values at the index of the largest difference."""

    group: str
    name: str
    plain: float
    placed: float
    index: tuple[int, ...]
    difference: float
    allowed: float

    @property
    def excess(self) -> float:
        return math.inf if self.allowed == 0 else self.difference / self.allowed


@dataclass(frozen=True)
class Difference:
    """The first event that differs. `kind`: "values", "calls" (the sides did different things) or "failure"."""

    kind: str
    call: str
    event: str
    step: int
    parts: tuple[ArrayDifference, ...] = ()
    num_compared: int = 0
    same_batch: bool | None = None
    same_rows: bool | None = None
    shifted: int | None = None
    num_rows: tuple[str, str] = ("", "")
    note: str = ""

    @property
    def groups(self) -> set[str]:
        return {part.group for part in self.parts}

    @property
    def worst(self) -> ArrayDifference | None:
        """The array to report first: the weight that differs most, else the optimizer's variable, else the number."""
        for group in ("weight", "optimizer", "log", "result"):
            if found := [part for part in self.parts if part.group == group]:
                return max(found, key=lambda part: part.excess)
        return None


@dataclass(frozen=True)
class Largest:
    """The largest relative difference among all compared arrays, and its place."""

    difference: float = 0.0
    where: str = ""


@dataclass
class Ruler:
    """The distance that each array of each event moves if the weights are moved by one rounding before every step."""

    seen: dict[tuple[Any, ...], float] = field(default_factory=dict)

    @staticmethod
    def of(plain: Sequence[Event], moved: Sequence[Event]) -> Ruler:
        ruler, most = Ruler(), dict[tuple[str, str, str], float]()
        for one, other in zip(plain, moved, strict=False):
            for entry, its in zip(one.entries, other.entries, strict=False):
                key = (one.call, entry.group, entry.name)
                most[key] = max(most.get(key, 0.0), _differ(entry, its)[0])
                ruler.seen[(*one.key, entry.group, entry.name)] = most[key]
        return ruler

    def allows(self, event: Event, entry: Entry) -> float:
        return _RULER_TIMES * self.seen.get((*event.key, entry.group, entry.name), 0.0)


def compare(
    plain: Sequence[Event], placed: Sequence[Event], precision: Precision, ruler: Ruler | None = None
) -> tuple[Difference | None, Largest]:
    """The first difference, or None, and the largest difference among the arrays compared before it."""
    scales, largest = _Scales(precision), Largest()
    for number, (one, other) in enumerate(zip(plain, placed, strict=False)):
        if one.key != other.key or _names(one) != _names(other):
            return _other_calls(one, other), largest
        scales.meet(one)
        parts, most = [], largest
        for entry, its in zip(one.entries, other.entries, strict=True):
            difference, position = _differ(entry, its)
            allowed = max(scales.allowed(entry), ruler.allows(one, entry) if ruler else 0.0)
            relative = difference / max(SMALLEST_SCALE, _size(entry))
            if difference > allowed:
                parts.append(_part(entry, its, difference, position, allowed))
            elif relative >= most.difference:
                most = Largest(relative, f"{entry.name}, {_when(one)}")
        if parts:
            return _values_differ(plain, placed, number, parts), largest
        largest = most
    return None, largest


def largest(plain: Sequence[Event], placed: Sequence[Event]) -> Largest:
    """The largest relative difference among the arrays of all events that both sides have, allowed or not."""
    found = Largest()
    for one, other in zip(plain, placed, strict=False):
        if one.key != other.key or _names(one) != _names(other):
            break
        for entry, its in zip(one.entries, other.entries, strict=True):
            relative = relative_difference(entry, its)
            if relative >= found.difference:
                found = Largest(relative, f"{entry.name}, {_when(one)}")
    return found


def relative_difference(entry: Entry, its: Entry) -> float:
    return _differ(entry, its)[0] / max(SMALLEST_SCALE, _size(entry))


class _Scales:
    """The difference to allow for each array; for weights it depends on how far they have moved since the first event."""

    def __init__(self, precision: Precision) -> None:
        self._precision = precision
        self._first: dict[tuple[str, str], Any] = {}
        # Of a model that was built in the step of this event: its start is unknown.
        self._late: dict[tuple[str, str], Any] = {}
        self._changes: dict[str, float] = {}

    def meet(self, event: Event) -> None:
        self._changes = {}
        self._first |= self._late
        self._late = {}
        for entry in event.entries:
            if entry.group in ("weight", "optimizer"):
                if (entry.group, entry.name) not in self._first:
                    seen = self._first if event.kind == "begin" else self._late
                    seen[entry.group, entry.name] = entry.values
                kind = _kind(entry)
                self._changes[kind] = max(self._changes.get(kind, 0.0), self._change(entry))

    def allowed(self, entry: Entry) -> float:
        if entry.group not in ("weight", "optimizer"):
            return self._precision.result * max(SMALLEST_SCALE, _size(entry))
        if entry.values.dtype.kind != "f":
            return 0.0
        if entry.group == "optimizer" and entry.name.endswith(
            "learning_rate"
        ):  # float32 even if layers compute in half
            number = min(self._precision.number, PRECISIONS["float32"].number)
            return _NUMBER_TIMES * number * _size(entry)
        return max(
            self._precision.change * self._change(entry),
            _GROUP_CHANGE * self._precision.change / 1e-3 * self._changes[_kind(entry)],
            _NUMBER_TIMES * self._precision.number * _size(entry),
        )

    def _change(self, entry: Entry) -> float:
        first = self._first.get((entry.group, entry.name))
        if first is None or first.shape != entry.values.shape:
            return _size(entry)
        start = 0.0 if entry.group == "optimizer" and entry.values.ndim else first
        with np.errstate(invalid="ignore"):
            return _largest(entry.values.astype("float64") - start)


def _kind(entry: Entry) -> str:
    """The group in which an array's changes are judged: all weights, or an optimizer's variables of one kind (momentum)."""
    return entry.group if entry.group == "weight" else f"{entry.group} {entry.name.rpartition('_')[2]}"


def _names(event: Event) -> list[tuple[str, str]]:
    return [(entry.group, entry.name) for entry in event.entries]


def _other_calls(one: Event, other: Event) -> Difference:
    if one.key == other.key:
        names = sorted({name for _, name in set(_names(one)) ^ set(_names(other))})[:_SHOWN]
        return Difference("calls", one.call, one.kind, one.step, note=f"only one side has {', '.join(names)}")
    note = f"plain Keras: {_when(one)}; placed: {_when(other)}"
    return Difference("calls", one.call, one.kind, one.step, note=note)


def _values_differ(
    plain: Sequence[Event], placed: Sequence[Event], number: int, parts: list[ArrayDifference]
) -> Difference:
    one, other = plain[number], placed[number]
    known = one.batch is not None and other.batch is not None
    others = {event.batch: event.step - one.step for event in plain if event.call == one.call and event.batch}
    return Difference(
        "values",
        one.call,
        one.kind,
        one.step,
        parts=tuple(sorted(parts, key=lambda part: -part.excess)),
        num_compared=len(one.entries),
        same_batch=one.batch == other.batch if known else None,
        same_rows=one.rows == other.rows if known else None,
        num_rows=tuple((each.batch or "").partition(" ")[0] for each in (one, other)),  # type: ignore[arg-type]
        shifted=others.get(other.batch) if other.batch is not None and one.batch != other.batch else None,
    )


def when(kind: str, call: str, step: int) -> str:
    """The place of an event in a script, in words."""
    places = {
        "begin": f"{call}, before its first step",
        "step": f"{call}, step {step}",
        "epoch": f"{call}, the end of epoch {step}",
        "history": f"{call}, its history",
        "end": f"the end of the script, {call}",
    }
    return places.get(kind, call)


def _when(event: Event) -> str:
    return when(*event.key)


def _part(entry: Entry, its: Entry, difference: float, position: int, allowed: float) -> ArrayDifference:
    if position < 0:
        return ArrayDifference(entry.group, entry.name, entry.norm, its.norm, (), difference, allowed)
    values = [float(each.values[position]) for each in (entry, its)]
    return ArrayDifference(entry.group, entry.name, values[0], values[1], entry.place(position), difference, allowed)


def _differ(entry: Entry, its: Entry) -> tuple[float, int]:
    """The largest difference, and its position among the kept values; -1 for the norm, or if the shapes differ."""
    if entry.shape != its.shape or entry.values.shape != its.values.shape:
        return math.inf, -1
    if not entry.values.size:
        return 0.0, 0
    a, b = entry.values.astype("float64"), its.values.astype("float64")
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    apart = np.where(np.isnan(apart), np.inf, apart)
    position = int(np.argmax(apart))
    beyond = abs(entry.norm - its.norm) / math.sqrt(math.prod(entry.shape)) if entry.every > 1 else 0.0
    return (beyond, -1) if beyond > apart[position] else (float(apart[position]), position)


def _size(entry: Entry) -> float:
    return _largest(entry.values)


def _largest(values: Any) -> float:
    finite = np.abs(values[np.isfinite(values)]) if values.dtype.kind == "f" else np.abs(values.astype("float64"))
    return float(finite.max()) if finite.size else 0.0


def name_of(precision: Precision) -> str:
    """The type whose rounding is allowed, such as `float32`."""
    return next(name for name, each in PRECISIONS.items() if each == precision)


def coarsest(dtypes: Iterable[str]) -> Precision:
    """The precision of the coarsest type in which layers compute."""
    known = [PRECISIONS[name] for name in dtypes if name in PRECISIONS]
    return max(known, key=lambda precision: precision.result, default=PRECISIONS["float32"])
