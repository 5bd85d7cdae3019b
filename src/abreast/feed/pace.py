"""Whether short steps run faster with or without threads beside them: each call of `fit`, `evaluate` or `predict` measures it.

A thread that reads and stages the next batch hides that work. But it also competes with the step for Python's lock, and if the
work is short, this costs more than it saves. Not here: the threads (`pipeline.py`). Imports nothing of abreast.
"""

from __future__ import annotations

from statistics import median

_LONGEST_NS = 10_000_000  # the median time between two steps up to which threads may cost more than they save
_WARM_UP = 4  # steps of each phase that are not measured; they use up the batches that wait when the phase begins
_STEPS = 8  # measured steps of each phase
_INLINE = (False, True, False, True)  # the phases
_GAIN = 0.97  # inline must take at most this share of the time with threads
_SLOW_READ_NS = 3_000_000
_MOST_SLOW_READS = 3


class Pace:
    """`inline`: the training thread reads and stages the next batch itself. `measures=False`: it never does."""

    def __init__(self, measures: bool) -> None:
        self.inline = False
        self._decided = not measures
        self._phase = self._num_steps = self._num_slow = 0
        self._last_ns: int | None = None
        self._times: dict[bool, list[int]] = {False: [], True: []}

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
        if self._num_steps > _WARM_UP:
            self._times[self.inline].append(now_ns - last)
        if self._num_steps == _WARM_UP + _STEPS:
            self._end_phase()

    def has_read(self, nanoseconds: int) -> None:
        """Record a read by the training thread. If such reads become slow, threads read from now on."""
        self._num_slow += nanoseconds > _SLOW_READ_NS
        if self._num_slow >= _MOST_SLOW_READS:
            self.inline, self._decided = False, True

    def _end_phase(self) -> None:
        self._num_steps = 0
        self._phase += 1
        threaded = median(self._times[False])
        if threaded > _LONGEST_NS:
            self.inline, self._decided = False, True
        elif self._phase < len(_INLINE):
            self.inline = _INLINE[self._phase]
        else:
            self.inline, self._decided = median(self._times[True]) <= _GAIN * threaded, True
