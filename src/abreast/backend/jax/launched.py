"""Processes that a launcher started: each runs the user's script, and drives its devices in one mesh over all processes.

Arrays of the mesh exist inside steps only. Everywhere else a variable, a log or a prediction is this process's copy, so a script
computes with it as in plain Keras. All processes use rank 0's order of the data and its weights. Batches, and values that code
sets between steps, must be the same in all processes, and are compared.

Not here: how processes join a job (`job.py`), leave it (`../leaving.py`), and compare (`../agreement.py`). Imports JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from weakref import ref

import jax
import numpy as np

from abreast.arrays import map_arrays
from abreast.backend.agreement import digest_of_text
from abreast.backend.contract import Placement
from abreast.backend.jax.job import Job, of_rank_0
from abreast.backend.jax.staged import StagedBatch, padded
from abreast.backend.launched import LaunchedProcess
from abreast.backend.leaving import HINT
from abreast.errors import BackendError, WorkerError
from abreast.feed import HostBatch, Taken, array_digest
from abreast.launchers import World
from abreast.shares import shares_of


class Blocks:
    """The rows of one array on this process's devices, in order. A leaf of a staged batch."""

    def __init__(self, arrays: list[Any]) -> None:
        self.arrays = arrays


class Launched(LaunchedProcess):
    """This process as a member of its job."""

    def __init__(self, world: World) -> None:
        job = Job(world)
        super().__init__(job)
        self._local_devices = tuple(jax.local_devices())
        self._first_device = min(jax.devices().index(device) for device in self._local_devices)
        self._handed: dict[int, ref[Any]] = {}

    def share_variables(self, model: Any, placement: Placement) -> None:
        self.agree_on_variables(held_variables(model))

    def explained(self, error: Exception) -> Exception:
        """A `WorkerError` that names the process that is gone, if a step's sums did not arrive; any other error unchanged."""
        text = str(error).partition("\n")[0]
        is_jaxs = isinstance(error, jax.errors.JaxRuntimeError | ValueError)
        if not is_jaxs or ("Gloo" not in text and "NCCL" not in text):
            return error
        return WorkerError(f"{self.job.leaving.who_is_gone()}: {text}", HINT)

    def own_rows(self, rows: int) -> range:
        """The rows of a global batch on this process's devices, fewer on the last ones; row 0 as a stand-in if there are none."""
        rows_per_device = shares_of(rows, len(self.names)).padded_rows // len(self.names)
        first, last = self._first_device, self._first_device + len(self._local_devices)
        own = range(first * rows_per_device, min(rows, last * rows_per_device))
        return own or range(1)

    # Batches with rows from each process

    def put_own(self, batch: HostBatch, each: int = 0) -> StagedBatch:
        """A batch's rows on this process's devices: `each` rows on every device, or more if needed."""
        each = max(each, -(-batch.rows // len(self._local_devices)))
        data = map_arrays(lambda leaf: self._blocks(leaf, each), batch.data)
        return StagedBatch(data, batch.rows, each)

    def _blocks(self, leaf: Any, each: int) -> Blocks:
        starts = range(0, each * len(self._local_devices), each)
        array = np.asarray(leaf)
        parts = [padded(array, slice(start, start + each)) for start in starts]
        return Blocks([jax.device_put(part, device) for part, device in zip(parts, self._local_devices, strict=True)])

    def joined(self, taken: Taken[StagedBatch], sharded: Any) -> StagedBatch:
        """The global batch of all processes' rows, in rank order. Nothing is sent."""
        counts, staged = taken.counts, taken.staged
        if counts is None:
            return staged
        each = max(-(-rows // number) for rows, number in zip(counts, self.num_devices, strict=True))
        if staged.padded_rows != each:  # another process has more rows
            staged = self.put_own(taken.host, each)

        def join(blocks: Any) -> Any:
            shape = (each * len(self.names), *blocks.arrays[0].shape[1:])
            return jax.make_array_from_single_device_arrays(shape, sharded, blocks.arrays)

        data = map_arrays(join, staged.data)
        starts = np.cumsum([0, *(each * number for number in self.num_devices)]).tolist()
        rows = tuple((start, start + count) for start, count in zip(starts, counts, strict=False) if count)
        return StagedBatch(data, rows, each * len(self.names), digest_of_text(str(counts)))

    # Arrays in and out of the mesh

    def onto_mesh(self, value: Any, replicated: Any) -> Any:
        """A value that is equal in all processes, placed on all devices. Nothing is sent."""
        if isinstance(value, jax.Array) and value.sharding == replicated:
            return value
        copies = [jax.device_put(value, device) for device in self._local_devices]
        return jax.make_array_from_single_device_arrays(copies[0].shape, replicated, copies)

    def own_copy(self, array: Any) -> Any:
        """This process's copy of an array that is whole on each device. Arrays that a failed step deleted stay as they are."""
        if not isinstance(array, jax.Array) or array.is_fully_addressable or array.is_deleted():
            return array
        return array.addressable_data(0)

    def handed(self, array: Any) -> Any:
        """This process's copy of a variable's value, recorded: while the variable holds it, all processes hold the same value."""
        own = self.own_copy(array)
        number = id(own)
        self._handed[number] = ref(own, lambda _: self._handed.pop(number, None))
        return own

    def is_as_handed(self, value: Any) -> bool:
        known = self._handed.get(id(value))
        return known is not None and known() is value

    def is_like(self, value: Any, of_step: Any) -> bool:
        """Whether a variable's value equals, bit for bit, the one that a step has left in it."""
        if of_step is None or of_step.is_deleted():
            return False
        own, other = np.asarray(value), np.asarray(self.own_copy(of_step))
        return own.dtype == other.dtype and own.tobytes() == other.tobytes()

    # What must be the same in all processes

    def agree_on_variables(self, variables: Sequence[Any]) -> None:
        """Begin a call: variables that a script set get rank 0's values, unless all processes set the same values."""
        changed = {i: array_digest(v._value) for i, v in enumerate(variables) if not self.is_as_handed(v._value)}
        names = [f"{v.path} {tuple(v.shape)} {v.dtype}" for v in variables]
        all_changed, differ = self._agreement.begins_call(names, changed)
        for i, value in zip(differ, self._of_rank_0([variables[i]._value for i in differ]), strict=True):
            variables[i]._value = value
        for i in all_changed:
            variables[i]._value = self.handed(variables[i]._value)

    def _of_rank_0(self, values: list[Any]) -> list[Any]:
        """Rank 0's values, bit for bit, in one message over the devices."""
        if not values:
            return []
        arrays = [np.asarray(value) for value in values]
        flat = np.concatenate([np.frombuffer(np.ascontiguousarray(each).tobytes(), np.uint8) for each in arrays])
        got = of_rank_0(flat)
        ends = np.cumsum([each.nbytes for each in arrays])
        parts = zip(np.split(got, ends[:-1]), arrays, strict=True)
        return [jax.numpy.asarray(part.copy().view(each.dtype).reshape(each.shape)) for part, each in parts]

    def before_step(self, batch: int, program: int) -> None:
        """Count a step. Before the first one of a call, compare batch and program, which are checksums."""
        self.job.leaving.in_call = True  # a call that a callback made has set it to False
        self._agreement.before_step(batch, program)

    def assigned(self, name: str, value: Any) -> None:
        """Record that a variable was set between steps."""
        self._agreement.assigned(name, partial(array_digest, value))

    def call_ended(self, failed: bool) -> None:
        """End a call of this process. Unless it failed, wait for its end in all processes, and compare their records."""
        try:
            self._agreement.call_ended(failed)
        finally:
            self.job.leaving.in_call = False


def held_variables(model: Any) -> list[Any]:
    """The variables of a model and its optimizer, except variables whose values a step has taken."""
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *(optimizer.variables if optimizer is not None else [])]
    return [variable for variable in variables if variable._value is not None]


def refuse_eager(model: Any) -> None:
    """Raise `BackendError` for a model whose steps are not compiled: they cannot use arrays of other processes."""
    if model.run_eagerly or not model.jit_compile:
        raise BackendError(
            "JAX cannot train over several processes in steps that are not compiled",
            "leave out run_eagerly=True and jit_compile=False",
        )


def program_digest(program: Any, *arguments: Any) -> int:
    """A checksum of a compiled step, which contains every constant, such as the rate of a Dropout."""
    return digest_of_text(program.lower(*arguments).as_text())
