"""The steps of a JAX model: one compiled program over the mesh, and the model's variables while it runs.

Not here: where arrays lie (`devices.py`), staging (`backend.py`). Imports JAX, Keras and `exact`.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary, WeakSet

import jax
import numpy as np
from keras import tree

from abreast.arrays import map_arrays
from abreast.backend.contract import Kind, Placement
from abreast.backend.jax.devices import placed, platform, replicated_over, sharded_over
from abreast.backend.jax.launched import Launched, program_digest
from abreast.backend.jax.staged import Rows, StagedBatch
from abreast.backend.jax.uneven import UnevenRows
from abreast.backend.several_steps import results_of
from abreast.errors import ModelError
from abreast.exact import optimizers
from abreast.exact.local_norm import local_batch_norm
from abreast.feed import take
from abreast.keras_private.optimizers import averages
from abreast.staging import Stage

# The model's lists of variables that Keras passes to a step, by name, in Keras's order.
_VARIABLES: dict[Kind, tuple[str, ...]] = {
    "train": ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables"),
    "test": ("trainable_variables", "non_trainable_variables", "metrics_variables"),
    "predict": ("trainable_variables", "non_trainable_variables"),
}


class _Values:
    """The values of some variables. Not a list: Keras would examine each of them at every step.

    `shown` returns the value that Keras sees in place of a value; None: Keras sees the value itself.
    """

    __slots__ = ("shown", "values")

    def __init__(self, values: list[Any], shown: Callable[[Any], Any] | None) -> None:
        self.values = values
        self.shown = shown

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values if self.shown is None else map(self.shown, self.values))


@dataclass(eq=False)
class Newest:
    """The newest variables of a running call, which takes them out of the model."""

    _alive: ClassVar[WeakSet[Newest]] = WeakSet()  # of a validation and of the training around it, for example
    _lock: ClassVar[threading.Lock] = threading.Lock()  # models may train in several threads
    values: Any = None  # a `_Values` per list
    variables: tuple[list[Any], ...] = ()  # the variables of `values`; a callback may freeze some of them meanwhile
    logs: Any = None

    def __post_init__(self) -> None:
        with self._lock:
            self._alive.add(self)

    @classmethod
    def all_alive(cls) -> list[Newest]:
        with cls._lock:
            return [*cls._alive]

    def put_back(self) -> None:
        """Give the values to variables without one: Keras puts them back itself, except after a failure."""
        if self.values is not None:
            for variables, values in zip(self.variables, self.values, strict=True):
                for variable, value in zip(variables, values, strict=True):
                    if variable._value is None:
                        variable._value = value
        self.values, self.variables, self.logs = None, (), None


class Steps:
    """A model's steps of one kind. `settle` finds the variables that they hold in `newest_of`."""

    def __init__(
        self,
        kind: Kind,
        model: Any,
        placement: Placement,
        stage: Stage[StagedBatch],
        newest_of: WeakKeyDictionary[Any, Newest],
        launched: Launched | None,
    ) -> None:
        self._kind = kind
        self._model = model
        self._stage = stage
        self._newest_of = newest_of
        self._newest = newest_of[model] = Newest()
        self._program = _program(kind, model, placement)
        self._replicated = replicated_over(placement.devices)
        self._sharded = sharded_over(placement.devices)
        self._launched = launched
        self._shown = None if launched is None else launched.handed
        self._program_digest: int | None = None
        # With many steps under way, XLA's CPU threads can wait for one another until XLA aborts.
        self._waits = placement.num_devices > 1 and platform() == "cpu"

    def run(self, batches: Iterator[Any]) -> Any:
        """See `StepFunction.run`."""
        if self._newest.values is None:
            self._take_variables()
        self._newest_of[self._model] = self._newest
        outputs = results_of(lambda: self._step(batches), self._model.steps_per_execution)
        if self._kind != "predict":
            return outputs[-1]
        return tree.map_structure(lambda *parts: _concatenate(parts), *outputs)

    def for_keras(self, state: Any, batches: Iterator[Any]) -> tuple[Any, Any]:
        """`run` for Keras, which passes the values of the variables that it has taken out of the model."""
        if state is not self._newest.values:  # Keras read the variables anew: a callback may have assigned to them.
            self._read(state)
        try:
            return self.run(batches), self._newest.values
        except BaseException:
            self._newest.put_back()  # before `settle`: the end of Keras's `fit` reads the variables, also after a failure
            _set_averages_of_no_step(self._model)
            raise

    def _step(self, batches: Iterator[Any]) -> Any:
        newest = self._newest
        taken = take(batches, self._stage, self._kind)
        staged = taken.staged if self._launched is None else self._launched.joined(taken, self._sharded)
        if self._waits:
            jax.block_until_ready(newest.logs)
        try:
            state = tuple([group.values for group in newest.values])
            if self._launched is not None:
                self._check(state, staged, self._launched)
            newest.logs, state = self._program(state, staged.data, staged.rows)
        except ValueError as error:
            if "ordered effects" in str(error):
                raise _ordered() from error
            if "incompatible devices" in str(error):
                raise _on_other_devices(self._model, self._kind) from error
            raise
        newest.values = tuple([_Values(values, self._shown) for values in state])
        if self._launched is not None:
            newest.logs = tree.map_structure(self._launched.own_copy, newest.logs)
            if self._kind == "predict":
                newest.logs = self._launched.kept_outputs(newest.logs, taken.counts)
        return newest.logs

    def _check(self, state: Any, staged: StagedBatch, launched: Launched) -> None:
        """Check before a call's first step that all processes run the same program on the same batch."""
        if self._program_digest is None:
            self._program_digest = program_digest(self._program, state, staged.data, staged.rows)
        launched.before_step(staged.digest, self._program_digest)

    def _take_variables(self) -> None:
        groups = _variables(self._model, self._kind)
        self._read([[variable._value for variable in group] for group in groups])
        for group in groups:
            for variable in group:
                variable._value = None  # the program is given its memory

    def _read(self, state: Any) -> None:
        self._note_assigned(state)
        self._newest.variables = _variables(self._model, self._kind)
        held = self._held()
        for values, variables in zip(state, self._newest.variables, strict=True):
            check_memory(values, variables)
        own = [_unheld(values, held) for values in state]
        self._newest.values = tuple(_Values(self._onto_devices(values), self._shown) for values in apart(own))

    def _held(self) -> Counter[int]:
        """The numbers of places, by the identity of a value, in which variables, running calls and Keras hold it."""
        in_calls = [group for newest in Newest.all_alive() for group in newest.values or ()]
        in_keras = (getattr(self._model, "_jax_state", None) or {}).values()
        lists = {id(each): each for each in (getattr(group, "values", group) for group in (*in_calls, *in_keras))}
        in_variables = [variable._value for group in self._newest.variables for variable in group]
        return Counter(id(value) for values in (*lists.values(), in_variables) for value in values)

    def _note_assigned(self, state: Any) -> None:
        """Record the variables that code has set since the last step. Keras itself sets all to a step's results, to save them."""
        if (launched := self._launched) is None:
            return
        newest = self._newest
        groups = zip(newest.variables, newest.values or (), strict=False)
        last = {id(each): value for of, group in groups for each, value in zip(of, group.values, strict=True)}
        for values, variables in zip(state, _variables(self._model, self._kind), strict=True):
            for value, variable in zip(values, variables, strict=True):
                if not launched.is_as_handed(value) and not launched.is_like(value, last.get(id(variable))):
                    launched.assigned(variable.path, value)

    def _onto_devices(self, values: list[Any]) -> list[Any]:
        if self._launched is None:
            return placed(values, self._replicated)
        return [self._launched.onto_mesh(value, self._replicated) for value in values]


def check_memory(values: Iterable[Any], variables: list[Any]) -> None:
    """Raise `ModelError` for an array whose memory a step has used up: on several devices, JAX ends the process."""
    for value, variable in zip(values, variables, strict=True):
        if isinstance(value, jax.Array) and value.is_deleted():
            raise ModelError(
                f"the array of {variable.path} is gone: a step has used up its memory, because another variable had the same "
                "array, or because that step failed",
                "where a variable is assigned to another one, assign a copy: one.assign(keras.ops.copy(other))",
            )


def apart(state: Any) -> list[list[Any]]:
    """The values. One that two variables share (after a `fit` that averages) is copied, because a step donates its memory.

    Values put on several devices afterwards may still share memory, although their objects differ.
    """
    seen: set[int] = set()

    def own(value: Any) -> Any:
        is_shared = id(value) in seen
        seen.add(id(value))
        return jax.numpy.copy(value) if is_shared else value

    return [list(map(own, values)) for values in state]


def _unheld(values: list[Any], held: Counter[int]) -> list[Any]:
    """The values, and copies of those that other code holds, such as a callback that keeps `variable.value`.

    A step donates their memory, and on several devices JAX ends the process where code uses an array after that.
    `held`: see `Steps._held`.
    """
    return [
        jax.numpy.copy(values[index])
        if _references(values, index) > _ALONE + held[id(values[index])]
        else values[index]
        for index in range(len(values))
    ]


def _references(values: list[Any], index: int) -> int:
    return sys.getrefcount(values[index])


_ALONE = _references([object()], 0)  # references to a value that only its list holds


def _set_averages_of_no_step(model: Any) -> None:
    """Set averages to the weights if no step has run: the end of Keras's `fit` uses the averages, which are still zeros."""
    for optimizer in optimizers(model):
        if (pairs := averages(optimizer)) and int(optimizer.iterations) == 0:
            for variable, average in pairs:
                average.assign(variable)


def _variables(model: Any, kind: Kind) -> tuple[list[Any], ...]:
    """The present variables whose values a step of this kind takes."""
    names = _VARIABLES[kind]
    return tuple(
        list(model.optimizer.variables if name == "optimizer_variables" else getattr(model, name)) for name in names
    )


def _program(kind: Kind, model: Any, placement: Placement) -> Callable[..., Any]:
    """The compiled step: `(state, padded data, rows) -> (logs or outputs, state)`; one program per number of rows."""
    step: Any = getattr(model, f"{kind}_step")
    sharded, replicated = sharded_over(placement.devices), replicated_over(placement.devices)

    def on_batch(state: Any, batch: Any) -> Any:
        _forget_losses(model)
        with local_batch_norm(placement.num_devices) if placement.batch_norm == "local" else nullcontext():
            return step(state, batch)

    is_compiled = model.jit_compile and not model.run_eagerly
    # The two programs below are traced from it: the user's Python runs once for each shape of a batch, as with plain Keras.
    traced = jax.jit(on_batch, inline=True)

    def keep_rows(leaf: Any, rows: Rows, onto: Any) -> Any:
        ranges = ((0, rows),) if isinstance(rows, int) else rows
        if leaf.shape[0] == sum(stop - start for start, stop in ranges):
            return leaf
        found = [leaf[start:stop] for start, stop in ranges]
        return jax.lax.with_sharding_constraint(found[0] if len(found) == 1 else jax.numpy.concatenate(found), onto)

    def program(state: Any, data: Any, rows: Rows, onto: Any) -> Any:
        batch = map_arrays(lambda leaf: keep_rows(leaf, rows, onto), data)
        # Where JAX looks for NaNs, it runs this operation by operation.
        is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in tree.flatten(batch))
        outputs, new_state = (traced if is_traced else on_batch)(state, batch)
        new_state = (state[0], new_state) if kind == "predict" else new_state
        return outputs, tuple(map(list, new_state))

    if not is_compiled:
        return partial(program, onto=replicated)  # outside a program, JAX does not shard uneven arrays
    outputs = None if replicated.is_fully_addressable else replicated

    def compiled(onto: Any) -> Callable[..., Any]:
        on_rows = partial(program, onto=onto)
        return jax.jit(on_rows, static_argnums=2, donate_argnums=0, out_shardings=(outputs, replicated))

    if placement.num_devices == 1:
        return compiled(sharded)
    return UnevenRows(compiled(sharded), compiled(replicated), placement.num_devices)


def _forget_losses(model: Any) -> None:
    """Forget the `id`s of losses of an earlier trace: Keras drops a layer's new loss if another layer had one with its `id`."""
    for layer in model._flatten_layers():
        layer._loss_ids.clear()


def _ordered() -> ModelError:
    return ModelError(
        "the step has an ordered effect, which JAX supports on one device only",
        "leave out ordered=True (jax.debug.print, jax.debug.callback, io_callback)",
    )


def _on_other_devices(model: Any, kind: Kind) -> ModelError:
    return ModelError(
        f"the {kind}_step of {type(model).__name__} computes on other devices than those of abreast: it has a mesh or an array "
        "of its own on some of them",
        "leave out the mesh, the sharding or the device; or use all of `jax.devices()`",
    )


def _concatenate(parts: tuple[Any, ...]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate([np.asarray(part) for part in parts])
