"""Whether short steps run faster with or without threads beside them: each call of `fit`, `evaluate` or `predict` measures it.

A thread that reads and stages the next batch hides that work. But it also competes with the step for Python's lock, and if the
work is short, this costs more than it saves. Other work on the machine can spoil a measurement, so long calls repeat it, ever
more rarely. Not here: the threads (`pipeline.py`). Imports nothing of abreast.
"""

from __future__ import annotations

from statistics import median

_LONGEST_NS = 10_000_000  # the median time between two steps up to which threads may cost more than they save
_WARM_UP = 4  # steps of each phase that are not measured; they use up the batches that wait when the phase begins
_STEPS = 8  # measured steps of each phase
_INLINE = (False, True, False, True)  # the phases
_GAIN = 0.97  # inline must take at most this share of the time with threads
_AGAIN = 8  # the next measurement begins at so many times the number of steps until now
_SLOW_READ_NS = 3_000_000
_MOST_SLOW_READS = 3


class Pace:
    """`inline`: the training thread reads and stages the next batch itself. `measures=False`: it never does."""

    def __init__(self, measures: bool) -> None:
        self._decided = not measures
        self._num_slow = self._num_steps = self._next = 0
        self._last_ns: int | None = None
        self._measure()

    def begin(self) -> None:
        """Begin another epoch: the time until its first step is not the time of a step."""
        self._last_ns = None

    def step(self, now_ns: int) -> None:
        """Record the time at which a step asks for its batch."""
        if self._decided:
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
        self._num_slow += nanoseconds > _SLOW_READ_NS
        if self._num_slow >= _MOST_SLOW_READS:
            self.inline, self._decided = False, True

    def _measure(self) -> None:
        """Begin a measurement."""
        self._phase, self.inline = 0, _INLINE[0]
        self._num_in_phase = 0
        self._times: dict[bool, list[int]] = {False: [], True: []}

    def _record(self, nanoseconds: int) -> None:
        self._num_in_phase += 1
        if self._num_in_phase > _WARM_UP:
            self._times[self.inline].append(nanoseconds)
        if self._num_in_phase == _WARM_UP + _STEPS:
            self._end_phase()

    def _end_phase(self) -> None:
        self._num_in_phase = 0
        self._phase += 1
        threaded = median(self._times[False])
        if threaded > _LONGEST_NS:
            self.inline, self._decided = False, True
        elif self._phase < len(_INLINE):
            self.inline = _INLINE[self._phase]
        else:
            self.inline = median(self._times[True]) <= _GAIN * threaded
            self._next = _AGAIN * self._num_steps
