"""The habits of a source, for all its iterators: whether it may be read ahead of the step, and whether it reuses arrays.

A source that could see effects of code between steps is read between steps, and one line on stderr reports that. The habits are
learnt from the first batches, which are read while no step runs. Imports no framework.
"""

from __future__ import annotations

from typing import Any

from abreast.feed.in_process import runs_here
from abreast.feed.reuse import ReuseGuard
from abreast.feed.shared_random import SharedDraws
from abreast.feed.shared_state import SharedState
from abreast.feed.turns import variables_of
from abreast.keras_private.data_adapters import DataAdapter
from abreast.staging import Leaves, Staging
from abreast.stderr import tell_for_all

_HINT = "prefetch=2 (abreast run --prefetch 2) reads ahead anyway, and so do workers of the source"
_reported: set[str] = set()


class Habits:
    """`between`: the source is read between steps. `watched`: it runs in this process, and the user has not set `prefetch`."""

    def __init__(self, adapter: DataAdapter, staging: Staging, leaves: Leaves, model: Any) -> None:
        self.runs_here = runs_here(adapter)
        self.may_change = staging.prefetch is None  # whether the user leaves it to us how far the source is read ahead
        self.watched = self.runs_here and self.may_change
        self.between = False
        self.known = False
        self.reported_budget = False
        self.reuse = ReuseGuard(staging.most + 3, leaves)
        self.draws = SharedDraws() if self.watched else None
        self.state: SharedState | None = None  # with the model's steps
        # Keras itself takes the first two batches of a generator, before the first step.
        self._num_learnt = 3 if self.runs_here else 2
        self._model = model
        self._variables: set[int] = set()

    @property
    def _compared(self) -> list[SharedDraws | SharedState]:
        """The comparisons around each read of the source."""
        return [each for each in (self.draws, self.state) if each is not None]

    def begin_epoch(self) -> None:
        for each in self._compared:
            each.begin_epoch()

    def before_read(self, is_first_step: bool) -> None:
        """Before a read of the source; `is_first_step`: the step in between drew seeds to build the model."""
        for each in self._compared:
            each.before_read(is_first_step)

    def after_read(self) -> None:
        for each in self._compared:
            each.after_read()

    def learn(self, num_read: int, draws_with_steps: bool) -> None:
        """Learn from read number `num_read` of an iterator.

        `draws_with_steps`: the read drew from the random generator that steps draw from.
        """
        self.known = self.known or num_read >= self._num_learnt
        self.between = self.between or draws_with_steps
        if self.draws is not None and self.draws.shared:
            self.read_between("the data source and something else draw from Python's or NumPy's global generator")
        if self.state is not None and self.state.changed:
            self.read_between(f"{self.state.changed} changes, and both the data source and the model's steps use it")

    def concerns(self, variable: Any) -> bool:
        """Whether a step of the model in training may change a variable that this source reads."""
        if not self.watched or self._model is None:
            return False
        if not self.known or not self._variables:
            self._variables = variables_of(self._model)
        return id(variable) in self._variables

    def read_between(self, why: str) -> None:
        """Read the source only between steps from now on; report the reason, once per process."""
        self.between = True
        if why not in _reported:
            _reported.add(why)
            tell_for_all(f"reading ahead is off: {why}\nhint: {_HINT}")
