"""Processes that a launcher started: each runs the user's script, and drives its devices in a graph of its own.

All processes use rank 0's order of the data, its weights and its findings about the model. Batches, and values that code sets
between steps, must be the same in all processes, and are compared. Not here: how processes join (`job.py`), and the exchanges in
steps (`processes.py`). Imports TensorFlow.
"""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from abreast.backend import fingerprint
from abreast.backend.agreement import Program, digest_of_text
from abreast.backend.contract import Kind, Placement
from abreast.backend.launched import LaunchedProcess
from abreast.backend.leaving import HINT
from abreast.backend.tensorflow import variables as tensorflow_variables
from abreast.backend.tensorflow.job import Job
from abreast.backend.tensorflow.step import StagedBatch
from abreast.backend.tensorflow.unchanged import HeldValues
from abreast.backend.tensorflow.variables import Variables
from abreast.errors import WorkerError
from abreast.feed import array_digest
from abreast.launchers import World
from abreast.shares import counts_of_own


class Launched(LaunchedProcess):
    """This process as a member of its job."""

    job: Job

    def __init__(self, world: World, variables: Mapping[Any, Variables]) -> None:
        job = Job(world)
        super().__init__(job)
        self._variables = variables  # of each placed model
        self.reach = job.reach
        self._held = HeldValues()
        self._kinds: WeakKeyDictionary[Any, set[Kind]] = WeakKeyDictionary()  # by model: the kinds of steps it has made
        self._left: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # by model: settings that its steps changed
        self._set: dict[int, ref[Any]] = {}  # variables that were set since the last step that reads them
        tensorflow_variables.ON_ASSIGNMENT.append(self._assigned)

    def share_variables(self, model: Any, placement: Placement) -> None:
        variables = self._variables[model]
        variables.rest()
        variables.complete()
        self.agree_on_variables(variables)

    # Values from rank 0

    @contextmanager
    def seeds_of_rank_0(self) -> Iterator[None]:
        """Inside, TensorFlow's random operations get the same seeds as on rank 0. Make datasets that shuffle in this context."""
        running = context.context()
        before = running._seed, getattr(running, "_rng", None)
        state = None if before[1] is None else before[1].getstate()
        own = json.dumps([before[0], state, secrets.randbits(31)])
        seed, state, fresh = json.loads(self._agreement.of_rank_0("opens its data", own))
        if seed is None or self.job.rank > 0:
            running._seed = fresh if seed is None else seed
            running._rng = _generator(fresh, state)
        try:
            yield
        finally:
            if seed is None or self.job.rank > 0:
                running._seed, running._rng = before

    def agree_on_variables(self, variables: Variables) -> None:
        """Begin a call: variables that a script set get rank 0's values, unless all processes set the same values."""
        everything = variables.all()
        names = [f"{variable.path} {tuple(variable.shape)} {variable.dtype}" for variable in everything]
        values = {place: self._held.digest(variable) for place, variable in enumerate(everything)}
        _, differ = self._agreement.begins_call(names, values)
        for place in differ:
            plain = everything[place]._value
            plain.assign(self._of_rank_0(np.asarray(plain)))
        self._taken_from_set(everything)

    def _of_rank_0(self, value: Any) -> Any:
        """Rank 0's value, bit for bit."""
        own = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
        found = self.job.ring.rows(own if self.job.rank == 0 else own[:0])
        return found.view(value.dtype).reshape(value.shape)

    def complete(self, staged: StagedBatch, rows: tuple[int, ...]) -> None:
        """Note how many rows of its own each process gives to a step."""
        staged.counts = counts_of_own(rows, self.num_devices)
        staged.digest = digest_of_text(str(rows))

    # Comparisons between processes

    def before_step(self, batch: int, model: Any) -> None:
        """Count a step. Before the first one of a call, compare batch and settings. `batch` is a checksum."""
        self.job.leaving.in_call = True  # also after a call that a callback made
        self._held.forget()
        self._agreement.before_step(batch, lambda: Program.of(fingerprint.settings(model), self._left.get(model, ())))

    def _assigned(self, variable: Any) -> None:
        """Note a variable that was set outside steps, maybe before the first step of a call."""
        number = id(variable)
        self._set[number] = ref(variable, lambda _: self._set.pop(number, None))

    def note_assigned(self, variables: Variables) -> None:
        """Begin a step: record the variables set since the last one, for a comparison between processes."""
        for variable in self._taken_from_set(variables.all()) if self._set else ():
            self._agreement.assigned(variable.path, partial(array_digest, variable._value))

    def _taken_from_set(self, variables: list[Any]) -> list[Any]:
        return [variable for variable in variables if self._set.pop(id(variable), None) is not None]

    def call_ended(self, failed: bool, variables: Variables | None) -> None:
        """End a call of this process. Unless it failed, wait for its end in all processes, and compare their records."""
        try:
            self._agreement.call_ended(failed)
            if not failed and variables is not None:
                self._held.hold(variables.all())
        finally:
            self.job.leaving.in_call = False

    @contextmanager
    def preparing(self, model: Any) -> Iterator[None]:
        """Inside, calls of a model see this process's rows. Attributes that they change on an eager model are no settings."""
        with self._noting_left(model) if model.run_eagerly else nullcontext():
            yield

    @contextmanager
    def stepping(self, kind: Kind, model: Any) -> Iterator[None]:
        """Inside, a step runs. Attributes that the first step of its kind changes on the model are no settings."""
        kinds = self._kinds.setdefault(model, set())
        with nullcontext() if kind in kinds else self._noting_left(model), self._explained():
            yield
        kinds.add(kind)

    @contextmanager
    def _noting_left(self, model: Any) -> Iterator[None]:
        before = fingerprint.settings(model)
        yield
        self._left.setdefault(model, set()).update(fingerprint.changed(before, fingerprint.settings(model)))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Inside, Ctrl+C ends a waiting step, and the error of a step whose exchange failed names the process that is gone."""
        self.job.interrupts.forget()
        try:
            yield
        except (tf.errors.OpError, RuntimeError):  # RuntimeError: Ctrl+C during the making of an OpError
            failed = self.job.failed_exchange()
            if failed is None:
                raise
            if not isinstance(failed, WorkerError) or failed.hint != HINT:
                raise failed from None
            raise WorkerError(
                f"{self.job.leaving.who_is_gone()} while this process waited for it in a step", HINT
            ) from None


def _generator(seed: int, state: Any) -> random.Random:
    made = random.Random(seed)
    if state is not None:
        version, words, next_gauss = state
        made.setstate((version, tuple(words), next_gauss))
    return made
