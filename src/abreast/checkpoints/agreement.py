"""Whether a checkpoint is due, and whether a signal has asked for an end: the same answer in all processes of a job.

Rank 0's clock counts. Processes that a launcher started agree after a number of steps that rank 0 gives: those of half a second.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from abreast.backend.contract import Job
from abreast.checkpoints import stop
from abreast.checkpoints.policy import Every

_BETWEEN_SECONDS = 0.5
_MOST_STEPS = 1000


@dataclass(frozen=True)
class Answer:
    is_due: bool
    asked: str | None  # the signal that asks for an end, in any process


_NOTHING = Answer(False, None)  # after almost every step: making one takes longer than finding out


class Agreement:
    """The answers during one `fit`. While `can_save` is False, an older checkpoint is being written: no time makes one due."""

    def __init__(self, every: Every, job: Job | None, can_save: Callable[[], bool] = lambda: True) -> None:
        self._every = every
        self._job = job
        self._can_save = can_save
        self._steps_since = self._steps_alone = self._steps_apart = 0
        self._saved_seconds = self._met_seconds = time.monotonic()

    def steps_done(self, number: int) -> None:
        self._steps_since += number
        self._steps_alone += number

    def saved(self) -> None:
        """A checkpoint has been taken."""
        self._steps_since, self._saved_seconds = 0, time.monotonic()

    def answer(self, at_end: bool = False) -> Answer:
        """Called between two steps, in all processes at the same; `at_end`: of an epoch."""
        by_steps = self._every.steps is not None and self._steps_since >= self._every.steps
        due = by_steps or (self._every.is_epoch and at_end)
        if self._job is None:
            return _answer(due or self._is_late, stop.requested())
        if not (at_end or self._steps_alone >= self._steps_apart):
            return _answer(due, None)
        told = [json.loads(each) for each in self._job.exchange("asks for checkpoints", self._own())]
        self._steps_alone, self._steps_apart = 0, told[0]["steps"]
        return Answer(due or told[0]["late"], next((each["asked"] for each in told if each["asked"]), None))

    @property
    def _is_late(self) -> bool:
        late = self._every.seconds is not None and time.monotonic() - self._saved_seconds >= self._every.seconds
        return late and self._can_save()

    def _own(self) -> bytes:
        now = time.monotonic()
        step_seconds = (now - self._met_seconds) / max(1, self._steps_alone)
        self._met_seconds = now
        steps = max(1, min(_MOST_STEPS, int(_BETWEEN_SECONDS / max(step_seconds, 1e-9))))
        return json.dumps({"late": self._is_late, "asked": stop.requested(), "steps": steps}).encode()


def _answer(is_due: bool, asked: str | None) -> Answer:
    return Answer(is_due, asked) if is_due or asked else _NOTHING
