"""The decision that a checkpoint is due or that a signal asks for the end: the same in all processes of a job.

Rank 0's clock decides. Processes that a launcher started agree after a number of steps that rank 0 sets to about half a second.
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
    asked: str | None  # the signal that asks for the end, in any process


NOTHING = Answer(False, None)


class Agreement:
    """The answers during one `fit`. While any process still writes an older checkpoint, the clock makes none due.

    `is_busy`: whether this process writes. `settle` is called in all processes at the same step, when none writes; it returns
    whether rank 0 then begins to name a checkpoint.
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
        """Count a step of a validation: processes of a job also ask one another there."""
        self._steps_alone += 1

    def saved(self) -> None:
        """Record that a checkpoint was taken."""
        self._steps_since = 0
        self._late_at = time.monotonic() + (self._every.seconds or math.inf)

    def answer(self, at_end: bool = False) -> Answer:
        """The answer between two steps. All processes call this after the same step; `at_end`: at the end of an epoch."""
        due = self._steps_since >= self._due_steps or (at_end and self._every.is_epoch)
        if self._job is None:
            due, asked = due or self._is_late, stop.requested()
            return Answer(due, asked) if due or asked else NOTHING
        if not (at_end or self._steps_alone >= self._steps_apart):
            return Answer(due, None) if due else NOTHING
        answers = [json.loads(each) for each in self._job.exchange("asks for checkpoints", self._own())]
        self._steps_alone, self._steps_apart = 0, answers[0]["steps"]
        is_busy = any(each["busy"] for each in answers) or self._settle()
        late = answers[0]["late"] and not is_busy
        return Answer(due or late, next((each["asked"] for each in answers if each["asked"]), None))

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
