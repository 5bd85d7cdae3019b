"""Whether short steps run faster with or without threads beside them: `fit`, `evaluate` and `predict` measure it.

A thread that reads and stages the next batch hides that work. But it also competes with the step for Python's lock, and if the
work is short, this costs more than it saves. Other work on the machine can spoil a measurement, so it is repeated, ever more
rarely. A call goes on with what earlier calls of its kind found. Not here: the threads (`pipeline.py`). Imports nothing of
abreast.
"""

from __future__ import annotations

from math import inf
from statistics import fmean, median
from typing import Any
from weakref import WeakKeyDictionary

_LONGEST_NS = 10_000_000  # the time between two steps up to which threads may cost more than they save
_WARM_UP = 4  # unmeasured steps of each phase; they use up the batches that wait when the phase begins
_STEPS = 8  # measured steps of each phase
_PHASES = 6  # with and without threads in turn: other work on the machine rarely spoils all phases of one kind
_CLEAR = 2.5  # if one way takes so many times as long as the other, two phases are enough
_AGAIN = 8  # the next measurement begins at so many times the number of steps until now
_SLOW_READ_NS = 3_000_000
_MOST_SLOW_READS = 2.0
_FORGOTTEN = 0.02  # so much of a slow read is taken back by each fast one: every source is slow now and then


class Pace:
    """`inline`: the training thread reads and stages the next batch itself. `measures=False`: it never does."""

    def __init__(self, measures: bool = True) -> None:
        self.measures = measures
        self.is_final = not measures
        self._num_steps = self._next = 0
        self._num_slow = 0.0
        self._last_ns: int | None = None
        self._measure()

    def begin(self) -> None:
        """Begin another epoch: the time until its first step is not the time of a step."""
        self._last_ns = None

    def step(self, now_ns: int) -> None:
        """Record the time at which a step asks for its batch."""
        if self.is_final:
            return
        last, self._last_ns = self._last_ns, now_ns
        if last is None:
            return
        self._num_steps += 1
        if self._num_steps > self._next:
            self._record(now_ns - last)
        elif self._num_steps == self._next:
            self._measure()

    def has_read(self, nanoseconds: int) -> None:
        """Record a read by the training thread. If such reads become slow, threads read from now on."""
        is_slow = nanoseconds > _SLOW_READ_NS
        self._num_slow = self._num_slow + 1 if is_slow else max(0.0, self._num_slow - _FORGOTTEN)
        if self._num_slow > _MOST_SLOW_READS:
            self.inline, self.is_final = False, True

    def _measure(self) -> None:
        """Begin a measurement."""
        self._phase, self.inline = 0, False
        self._in_phase: list[int] = []
        self._times: dict[bool, list[float]] = {False: [], True: []}  # by `inline`, one for each phase

    def _record(self, nanoseconds: int) -> None:
        self._in_phase.append(nanoseconds)
        if len(self._in_phase) == _WARM_UP + _STEPS:
            self._end_phase(fmean(sorted(self._in_phase[_WARM_UP:])[:-1]))  # the longest may be a pause of the script
            self._in_phase.clear()

    def _end_phase(self, nanoseconds: float) -> None:
        self._times[self.inline].append(nanoseconds)
        self._phase += 1
        # Not the shortest: with threads, times vary more, and a few short steps say little.
        threaded, inline = (median(self._times[key] or [inf]) for key in (False, True))
        if threaded > _LONGEST_NS:
            self.inline, self.is_final = False, True
        elif self._phase < _PHASES and not (self._phase > 1 and _are_far_apart(threaded, inline)):
            self.inline = not self.inline
        else:
            self.inline = inline <= threaded
            self._next = _AGAIN * self._num_steps


_paces: WeakKeyDictionary[Any, dict[Any, Pace]] = WeakKeyDictionary()


def pace_of(model: Any, *call: Any) -> Pace:
    """The pace of a model's calls with the same `call`; a new one after a call whose steps or reads were slow."""
    paces = _paces.setdefault(model, {})
    if call not in paces or paces[call].is_final:
        paces[call] = Pace()
    return paces[call]


def _are_far_apart(one: float, other: float) -> bool:
    return max(one, other) > _CLEAR * min(one, other)
