"""Whether a checkpoint is due, and whether a signal has asked for an end: the same answer in all processes of a job.

Rank 0's clock counts. Processes that a launcher started agree after a number of steps that rank 0 gives: those of half a second.
"""

from __future__ import annotations

import json
import math
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


NOTHING = Answer(False, None)


class Agreement:
    """The answers during one `fit`. While an older checkpoint is being written, in any process, no time makes one due.

    `is_busy`: whether this process writes. `settle` is called, in all processes at the same step, where none does; it returns
    whether rank 0 then begins to give one its name.
    """

    def __init__(
        self,
        every: Every,
        job: Job | None,
        is_busy: Callable[[], bool] = lambda: False,
        settle: Callable[[], bool] = lambda: False,
    ) -> None:
        self._every = every
        self._job = job
        self._is_busy = is_busy
        self._settle = settle
        self._due_steps = every.steps or math.inf
        self._steps_alone = self._steps_apart = 0
        self._met_seconds = time.monotonic()
        self.saved()

    def steps_done(self, number: int) -> None:
        self._steps_since += number
        self._steps_alone += number

    def validation_step_done(self) -> None:
        """Processes of a job ask one another during a validation, too."""
        self._steps_alone += 1

    def saved(self) -> None:
        """A checkpoint has been taken."""
        self._steps_since = 0
        self._late_at = time.monotonic() + (self._every.seconds or math.inf)

    def answer(self, at_end: bool = False) -> Answer:
        """Called between two steps, in all processes at the same; `at_end`: of an epoch."""
        due = self._steps_since >= self._due_steps or (at_end and self._every.is_epoch)
        if self._job is None:
            # At every step: few calls.
            asked = stop.requested()
            if not due and time.monotonic() >= self._late_at:
                due = not self._is_busy()
            return Answer(due, asked) if due or asked else NOTHING
        if not (at_end or self._steps_alone >= self._steps_apart):
            return Answer(due, None) if due else NOTHING
        told = [json.loads(each) for each in self._job.exchange("asks for checkpoints", self._own())]
        self._steps_alone, self._steps_apart = 0, told[0]["steps"]
        is_busy = any(each["busy"] for each in told) or self._settle()
        late = told[0]["late"] and not is_busy
        return Answer(due or late, next((each["asked"] for each in told if each["asked"]), None))

    @property
    def _is_late(self) -> bool:
        return time.monotonic() >= self._late_at and not self._is_busy()

    def _own(self) -> bytes:
        now = time.monotonic()
        step_seconds = (now - self._met_seconds) / max(1, self._steps_alone)
        self._met_seconds = now
        steps = max(1, min(_MOST_STEPS, int(_BETWEEN_SECONDS / max(step_seconds, 1e-9))))
        own = {"late": self._is_late, "busy": self._is_busy(), "asked": stop.requested(), "steps": steps}
        return json.dumps(own).encode()
