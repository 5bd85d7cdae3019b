"""A model on the ranks: this process's step, and the state of its variables when the ranks last agreed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from abreast import ever_rarer, exact
from abreast.backend.contract import Kind
from abreast.backend.torch import messages
from abreast.backend.torch.memory import Memory
from abreast.backend.torch.python_state import PythonState
from abreast.backend.torch.step import ReplicaStep

# The model's attribute for its `TeamModel`, which refers to the model: a global table would keep both alive for ever.
_TEAM_MODEL = "_abreast_team_model"


def team_model_of(model: Any) -> TeamModel | None:
    team_model: TeamModel | None = vars(model).get(_TEAM_MODEL)
    return team_model


def keep(model: Any, team_model: TeamModel) -> None:
    vars(model)[_TEAM_MODEL] = team_model


def forget(model: Any) -> None:
    """Make the workers free their copies of the model; its next step sends it again."""
    team_model: TeamModel | None = vars(model).pop(_TEAM_MODEL, None)
    if team_model is not None:
        team_model.forget()


class TeamModel:
    """A model on the ranks: this process's step, and the state of its variables when the ranks last agreed.

    `python_state` is None if there are no workers that need it.
    """

    forget: Callable[[], Any] = staticmethod(
        lambda: None
    )  # lets workers free their copies, also when this object is freed

    def __init__(self, key: int, step: ReplicaStep, identity: Any, python_state: PythonState | None) -> None:
        self.key, self.step, self.identity, self.python_state = key, step, identity, python_state
        self.num_changes = 0  # changes of the Python state that the workers were sent
        self.seen: set[Kind] = set()
        self._uneven: Counter[tuple[Any, ...]] = Counter()  # steps, by kind and different numbers of rows
        self.left_by_steps: set[str] = set()  # settings that steps change
        self.size = step.link.num_replicas
        variables = messages.numbered_variables(step.model)
        self.tensors = [variable._value for variable in variables]
        self._versions: list[int] = []
        self._written: set[int] = set()
        self._memory: Memory | None = None
        frozen = {id(variable._value) for variable in step.model.non_trainable_variables}
        self._frozen = [tensor for tensor in self.tensors if id(tensor) in frozen]
        self._before = [tensor.detach().clone() for tensor in self._frozen]
        self.remember()

    def compares(self, kind: Kind, counts: Sequence[int]) -> bool:
        """Whether the ranks compare their exchanges in the next step: the user's code may decide by the number of its rows."""
        if len(set(counts)) == 1:
            return False
        self._uneven[kind, *counts] += 1
        return ever_rarer.is_due(self._uneven[kind, *counts])

    def is_of(self, model: Any, *options: Any) -> bool:
        """Whether the model still has the same layers, variables and `options`, and its buffers still fit."""
        return bool(self.identity == messages.identity(model, *options)) and self.step.buffers.fits()

    @contextmanager
    def undone_by_failure(self) -> Iterator[None]:
        """Inside, undo the changes of a step that fails. Weights change only after the ranks' last exchange, so they stay."""
        # Not a `TrainingState` of `state.py`, which copies everything to the host: this runs at every step, and keeps on the
        # device what a step changes before the ranks' last exchange. `Buffers` serves both.
        with torch.no_grad():
            for copy, tensor in zip(self._before, self._frozen, strict=True):
                copy.copy_(tensor)
        self.step.buffers.keep()
        try:
            yield
        except BaseException:
            self.step.buffers.put_back()
            with torch.no_grad():
                for copy, tensor in zip(self._before, self._frozen, strict=True):
                    tensor.copy_(copy)
            raise

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Inside runs code that restores all tensors at its end, which does not count as a change since `remember`."""
        counts = [tensor._version == version for tensor, version in zip(self.tensors, self._versions, strict=True)]
        changed = set(self.step.buffers.changed())
        yield
        pairs = zip(self.tensors, self._versions, counts, strict=True)
        self._versions = [tensor._version if was_same else version for tensor, version, was_same in pairs]
        self.step.buffers.mark(besides=changed)

    def short_results(self, kind: Kind, rows: Any) -> exact.ShortResults:
        """See `ReplicaStep.short_results`."""
        with self.restoring():
            return self.step.short_results(kind, rows)

    def remember(self) -> None:
        self._versions = [tensor._version for tensor in self.tensors]
        self._written = set()
        self.step.buffers.mark()

    def accept(self) -> None:
        """Before the user's code runs: record that the workers have the present state."""
        if self.python_state is not None:
            self.python_state.skip()
        self._memory = Memory(self._all_tensors())

    def note_writes(self) -> None:
        """Find the tensors that the user's code wrote to since `accept` without torch counting it."""
        everything = self._all_tensors()
        self._written = {*range(len(everything))} if self._memory is None else self._memory.written(everything)

    def _all_tensors(self) -> list[torch.Tensor]:
        return [*self.tensors, *self.step.buffers.tensors()]

    def named(self) -> list[tuple[str, torch.Tensor]]:
        """All tensors, variables first."""
        names = [variable.path for variable in messages.numbered_variables(self.step.model)]
        buffers = self.step.buffers.tensors()
        names += [f"buffer {i}" for i in range(len(buffers))]
        return list(zip(names, [*self.tensors, *buffers], strict=True))

    def assigned(self) -> list[int]:
        """Places in `named` of tensors changed since `remember`, by torch's count alone."""
        numbers = range(len(self.tensors))
        by_count = [n for n in numbers if self.tensors[n]._version != self._versions[n]]
        return [*by_count, *(len(self.tensors) + n for n in self.step.buffers.changed())]

    def changed(self) -> tuple[list[int], list[int]]:
        """Indices of variables and of buffers changed since `remember`, by torch's count and by `note_writes`."""
        numbers = range(len(self.tensors))
        variables = [n for n in numbers if self.tensors[n]._version != self._versions[n] or n in self._written]
        written = {n - len(self.tensors) for n in self._written if n >= len(self.tensors)}
        return variables, sorted({*self.step.buffers.changed(), *written})
