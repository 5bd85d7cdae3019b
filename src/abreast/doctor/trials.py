"""Short runs of `fit` that differ in one thing. They take turns, so that a drift of the machine affects all of them.

A trial's first steps are dropped: they compile, and fill the queue of batches read ahead. Nothing is timed without waiting
for the device. Not here: the list of trials (`remedies.py`).
"""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import keras

from abreast.doctor.call import FitCall
from abreast.doctor.clock import TrialClock
from abreast.doctor.facts import GIVEN, SOURCE, Measure
from abreast.errors import DataError
from abreast.feed.workers import workers_ended
from abreast.stderr import silent

ROUNDS = 5
WARMUP_STEPS = 3
_SHORTEST_SECONDS = 0.2  # timed in one turn, unless that takes more than `_MOST_STEPS` steps
_MOST_STEPS = 50
_LONG_SECONDS, _FEW_ROUNDS = 0.15, 3  # a step that takes this long is measured in fewer rounds


@dataclass(frozen=True)
class Trial:
    """A `fit` with one thing changed.

    `arguments` returns the arguments of one turn's `fit`; `around` is the context in which that `fit` runs.
    """

    name: str
    what: str
    rows: int
    arguments: Callable[[], dict[str, Any]]
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    base: str = GIVEN
    base_rows: float = 0
    own_function: bool = False  # true if the trial needs a step function compiled for it
    own_source: bool = False  # true if the trial reads its source in another way than the run as given
    warmup_steps: int = 0  # at least this many, where the trial needs more than others
    burst: int = 1  # batches that may arrive at once; a turn has a multiple of this many steps
    run: Callable[[int], float] | None = None  # runs in place of a `fit`; number of steps -> seconds per step


@dataclass
class TrialRunner:
    """Runs the trials of one `fit`. `failed` holds the error of each trial that raised."""

    call: FitCall
    steps: int
    warmup_steps: int = WARMUP_STEPS
    rounds: int = ROUNDS
    measures: dict[str, Measure] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda _: None
    between_epochs: list[float] = field(default_factory=list)  # seconds, in the run as given
    _functions: dict[str, Any] = field(default_factory=dict)
    _seconds: dict[str, float | None] = field(default_factory=dict)  # seconds per step in a trial's last turn

    @property
    def model(self) -> Any:
        return self.call.model

    def warm_up(self, trial: Trial) -> None:
        """Compile, and choose the number of steps in a turn. Raises whatever `fit` raises."""
        self.run(trial, self.warmup_steps, 1)
        seconds = self.run(trial, self.warmup_steps, 3)
        if seconds is None:
            raise self.call.ended or DataError("the data source ended at once", "give a source of more batches")
        self.rounds = ROUNDS if seconds < _LONG_SECONDS else _FEW_ROUNDS
        steps = max(-(-self.steps // self.rounds), _steps_enough(seconds))
        self.steps = -(-steps // trial.burst) * trial.burst

    def take_turns(self, trials: Sequence[Trial], rounds: int | None = None) -> None:
        """Measure trials in turns. The base of each trial must be among them. A trial that raises is left out."""
        taken: dict[str, list[float]] = {trial.name: [] for trial in trials}
        rounds = rounds or self.rounds
        self.tell(f"measuring in {rounds} turns of {self.steps} steps or more: {', '.join(taken)}")
        for turn in range(rounds):
            # The order rotates, so that no trial always follows the same other trial.
            for trial in [*trials[turn % len(trials) :], *trials[: turn % len(trials)]]:
                if trial.name in self.failed:
                    continue
                seconds = self._try(trial, first=turn == 0)
                if seconds is not None:
                    taken[trial.name].append(seconds)
            if self.call.ended is not None:
                break
        for trial in trials:
            if trial.name not in self.failed and taken[trial.name] and taken.get(trial.base):
                self.measures[trial.name] = _measure(trial, taken, self.measures.get(trial.name))

    def _try(self, trial: Trial, first: bool) -> float | None:
        try:
            if first and trial.own_function:
                self.run(trial, 1, 1)
            if trial.run is not None:
                return trial.run(self.steps)
            warmup, steps = max(self.warmup_steps, trial.warmup_steps), self._steps_of(trial)
            self._seconds[trial.name] = self.run(trial, warmup, steps)
            return self._seconds[trial.name]
        except Exception as error:
            if self.call.ended is not None:
                return None
            if trial.name in (GIVEN, SOURCE):
                raise
            self.failed[trial.name] = f"{type(error).__name__}: {error}".splitlines()[0]
            return None

    def _steps_of(self, trial: Trial) -> int:
        """Steps of the next turn: as many as for the run as given, or more if short steps would make the turn too short."""
        seconds = self._seconds.get(trial.name)
        steps = max(self.steps, _steps_enough(seconds)) if seconds else self.steps
        return -(-steps // trial.burst) * trial.burst

    def run(self, trial: Trial, warmup: int, steps: int) -> float | None:
        """Run one turn; returns its seconds per step, or None if the source ended first."""
        arguments = trial.arguments()
        key = trial.name if trial.own_function else ""
        mine = self.model.train_function
        with trial.around(), workers_ended():
            clock = TrialClock(self.model, warmup, steps)
            arguments["callbacks"] = [*arguments["callbacks"], clock]
            if key:
                self.model.train_function = self._functions.get(key)
            try:
                with quiet():
                    fit(self.model, arguments)
            finally:
                if key:
                    self._functions[key] = self.model.train_function
                    self.model.train_function = mine
        if trial.name == GIVEN:
            self.between_epochs += clock.between_epochs
        if trial.own_source and clock.seconds_per_step is not None:
            # Workers deliver as many batches at once when they start, so a short turn looks faster than the source really is.
            return max(clock.seconds_per_step, getattr(arguments["x"], "seconds_per_batch", None) or 0.0)
        return clock.seconds_per_step


def fit(model: Any, arguments: dict[str, Any]) -> None:
    """Call `keras.Model.fit` itself: a subclass's `fit` may take other arguments, and has been called already."""
    keras.Model.fit(model, **arguments)


def _steps_enough(seconds: float) -> int:
    """Number of steps, of `seconds` each, that make a turn long enough to time."""
    return min(_MOST_STEPS, math.ceil(_SHORTEST_SECONDS / max(seconds, 1e-6)))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide the output and warnings of a `fit` that the user did not start, and lines about it."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), silent(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _measure(trial: Trial, taken: dict[str, list[float]], earlier: Measure | None) -> Measure:
    """The measure of a trial: the samples of an earlier group of turns, followed by those of this group."""
    rounds = min(len(taken[trial.name]), len(taken[trial.base]))
    samples, base_samples = tuple(taken[trial.name][:rounds]), tuple(taken[trial.base][:rounds])
    if earlier is not None:
        samples, base_samples = earlier.samples + samples, earlier.base_samples + base_samples
    base_rows = trial.base_rows or trial.rows
    return Measure(trial.name, trial.what, trial.rows, samples, trial.base, base_rows, base_samples)
