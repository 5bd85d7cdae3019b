"""Short runs of `fit` that differ in one thing, in turns, so that a drift of the machine is in all of them.

A trial's first steps are dropped: they compile, and fill what is read ahead. Nothing is timed without waiting for the
device. Not here: which trials there are (`remedies.py`). Imports Keras, `call`, `clock` and `facts`.
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
from abreast.doctor.clock import Clock
from abreast.doctor.facts import GIVEN, SOURCE, Measure
from abreast.errors import DataError
from abreast.feed.workers import workers_ended

ROUNDS = 5
WARMUP_STEPS = 3
_SHORTEST_SECONDS = 0.2  # of what is timed in one turn
_MOST_STEPS = 50
_LONG_SECONDS, _FEW_ROUNDS = 0.15, 3  # of a step


@dataclass(frozen=True)
class Trial:
    """A `fit` with one thing changed. `arguments` gives those of one turn, `around` what holds while it runs."""

    name: str
    what: str
    rows: int
    arguments: Callable[[], dict[str, Any]]
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    base: str = GIVEN
    base_rows: float = 0
    own_function: bool = False  # whether the step must be compiled for it
    own_source: bool = False  # whether it reads otherwise than the run as given
    warmup_steps: int = 0  # more than others need
    burst: int = 1  # batches that may come at once: a turn has a multiple of so many steps
    run: Callable[[int], float] | None = None  # instead of a `fit`: seconds per step of so many


@dataclass
class Bench:
    """Runs trials of one call. `failed` says which trials raised, and what."""

    call: FitCall
    steps: int
    warmup_steps: int = WARMUP_STEPS
    rounds: int = ROUNDS
    measures: dict[str, Measure] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda _: None
    between_epochs: list[float] = field(default_factory=list)  # seconds, of the run as given
    _functions: dict[str, Any] = field(default_factory=dict)
    _seconds: dict[str, float | None] = field(default_factory=dict)  # of a trial's last turn, per step

    @property
    def model(self) -> Any:
        return self.call.model

    def warm_up(self, trial: Trial) -> None:
        """Compile, and choose how many steps a turn needs. Raises what `fit` raises."""
        self.run(trial, self.warmup_steps, 1)
        seconds = self.run(trial, self.warmup_steps, 3)
        if seconds is None:
            raise self.call.ended or DataError("the data source ended at once", "give a source of more batches")
        self.rounds = ROUNDS if seconds < _LONG_SECONDS else _FEW_ROUNDS
        steps = max(-(-self.steps // self.rounds), _steps_enough(seconds))
        self.steps = -(-steps // trial.burst) * trial.burst

    def take_turns(self, trials: Sequence[Trial], rounds: int | None = None) -> None:
        """Measure trials, each beside its base, which is among them. A trial that raises is left out."""
        taken: dict[str, list[float]] = {trial.name: [] for trial in trials}
        rounds = rounds or self.rounds
        self.tell(f"measuring in {rounds} turns of {self.steps} steps or more: {', '.join(taken)}")
        for turn in range(rounds):
            # Each starts a round once, so that none is always behind the same other.
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
        """As many as the run as given has; more where they are so short that the two ends of a turn would count."""
        seconds = self._seconds.get(trial.name)
        steps = max(self.steps, _steps_enough(seconds)) if seconds else self.steps
        return -(-steps // trial.burst) * trial.burst

    def run(self, trial: Trial, warmup: int, steps: int) -> float | None:
        """Seconds per step of one turn; None when the source ended before it did."""
        arguments = trial.arguments()
        key = trial.name if trial.own_function else ""
        mine = self.model.train_function
        with trial.around(), workers_ended():
            clock = Clock(self.model, warmup, steps)
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
            # Many workers begin with as many batches at once, which are taken as if there always were so many.
            return max(clock.seconds_per_step, getattr(arguments["x"], "seconds_per_batch", None) or 0.0)
        return clock.seconds_per_step


def fit(model: Any, arguments: dict[str, Any]) -> None:
    """`Model.fit` itself: a `fit` of the model's own may take other arguments, and has been called already."""
    keras.Model.fit(model, **arguments)


def _steps_enough(seconds: float) -> int:
    """How many steps of so many seconds make a turn that is worth timing."""
    return min(_MOST_STEPS, math.ceil(_SHORTEST_SECONDS / max(seconds, 1e-6)))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what a `fit` prints and warns of, which belongs to no run of the user's."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _measure(trial: Trial, taken: dict[str, list[float]], earlier: Measure | None) -> Measure:
    """Of this group's turns, behind those of an earlier group."""
    rounds = min(len(taken[trial.name]), len(taken[trial.base]))
    samples, base_samples = tuple(taken[trial.name][:rounds]), tuple(taken[trial.base][:rounds])
    if earlier is not None:
        samples, base_samples = earlier.samples + samples, earlier.base_samples + base_samples
    base_rows = trial.base_rows or trial.rows
    return Measure(trial.name, trial.what, trial.rows, samples, trial.base, base_rows, base_samples)
