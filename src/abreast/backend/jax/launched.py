"""Processes that a launcher started: each runs the user's script, and drives its devices in one mesh over those of all processes.

Arrays of the mesh exist inside of steps only. Everywhere else a variable, a log or a prediction is this process's copy, so that
what a script computes with it is plain Keras. Rank 0's order of the data and weights count; batches, and what code between steps
sets, must be the same in all processes, and are compared.

Not here: how processes join (`job.py`) and leave (`leaving.py`) a job. Imports JAX.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import jax
import numpy as np
from jax.experimental import multihost_utils
from keras import tree

from abreast.backend import order
from abreast.backend.jax.job import Job
from abreast.backend.jax.leaving import HINT
from abreast.errors import BackendError, DataError, ModelError, WorkerError
from abreast.feed import HostBatch
from abreast.launchers import World

_COMPARED_ROWS = 16  # of each array of a batch


class Launched:
    """This process as one of its job."""

    def __init__(self, world: World) -> None:
        self.job = Job(world)
        self.names = self.job.device_names
        self._local_devices = tuple(jax.local_devices())
        self._thread: int | None = None  # that of the call that runs
        self._seen = Seen()
        self._starts = False  # whether the next step is the first one of a call
        self._handed: dict[int, ref[Any]] = {}

    def agree_on_order(self) -> None:
        """An epoch begins: shuffle as rank 0 does."""
        own = order.save().encode() if self.job.rank == 0 else b""
        order.restore(self.job.exchange("begins an epoch", own)[0].decode())

    def explained(self, error: Exception) -> Exception:
        """The error of a step whose sums did not arrive names the process that is gone; any other stays."""
        text = str(error).splitlines()[0]
        if "Gloo" not in text and "NCCL" not in text:
            return error
        return WorkerError(f"{self.job.leaving.who_is_gone()}: {text}", HINT)

    # Arrays in and out of the mesh

    def onto_mesh(self, value: Any, replicated: Any) -> Any:
        """A value that all processes hold alike, on all devices. Nothing is sent."""
        if isinstance(value, jax.Array) and value.sharding == replicated:
            return value
        copies = [jax.device_put(value, device) for device in self._local_devices]
        return jax.make_array_from_single_device_arrays(copies[0].shape, replicated, copies)

    def own_copy(self, array: Any) -> Any:
        """This process's copy of an array that is whole on each device. A step that failed has used up what it got."""
        if not isinstance(array, jax.Array) or array.is_fully_addressable or array.is_deleted():
            return array
        return array.addressable_data(0)

    def handed(self, array: Any) -> Any:
        """This process's copy of a variable's value, remembered: as long as a variable holds it, all processes hold the same."""
        own = self.own_copy(array)
        number = id(own)
        self._handed[number] = ref(own, lambda _: self._handed.pop(number, None))
        return own

    def is_as_handed(self, value: Any) -> bool:
        known = self._handed.get(id(value))
        return known is not None and known() is value

    # What must be the same in all processes

    def agree_on_variables(self, variables: Sequence[Any]) -> None:
        """A call begins: variables that a script has set get the values of rank 0, unless all processes set the same."""
        self._refuse_threads()
        self._starts = True
        changed = {i: _digest(v._value) for i, v in enumerate(variables) if not self.is_as_handed(v._value)}
        shapes = [f"{v.path} {tuple(v.shape)} {v.dtype}" for v in variables]
        own = json.dumps({"fingerprint": _checksum(json.dumps(shapes).encode()), "changed": changed}).encode()
        said = [json.loads(each) for each in self.job.exchange("begins a call", own)]
        if any(each["fingerprint"] != said[0]["fingerprint"] for each in said):
            self._refuse_other_model(shapes)
        all_changed = sorted({int(i) for each in said for i in each["changed"]})
        differ = [i for i in all_changed if len({each["changed"].get(str(i)) for each in said}) > 1]
        for i, value in zip(differ, self._of_rank_0([variables[i]._value for i in differ]), strict=True):
            variables[i]._value = value
        for i in all_changed:
            variables[i]._value = self.handed(variables[i]._value)

    def _refuse_threads(self) -> None:
        if self._thread not in (None, threading.get_ident()):
            raise BackendError(
                "two threads train, evaluate or predict at a time, and the order of their steps would differ between processes",
                "let one thread make the calls, or start one process",
            )
        self._thread = threading.get_ident()

    def _refuse_other_model(self, shapes: list[str]) -> None:
        of_all = [json.loads(each) for each in self.job.exchange("names its variables", json.dumps(shapes).encode())]
        rank, other = next((rank, each) for rank, each in enumerate(of_all) if each != of_all[0])
        first = next(i for i, (a, b) in enumerate(zip([*of_all[0], None], [*other, None], strict=False)) if a != b)
        mine, theirs = (each[first] if first < len(each) else "none" for each in (of_all[0], other))
        raise ModelError(
            f"the processes train different models: variable {first} is {mine} on rank 0, and {theirs} on rank {rank}",
            "start the same script with the same arguments on every host",
        )

    def _of_rank_0(self, values: list[Any]) -> Iterator[Any]:
        """Rank 0's values, bit for bit, in one message over the devices."""
        if not values:
            return iter(())
        arrays = [np.asarray(value) for value in values]
        flat = np.concatenate([np.frombuffer(np.ascontiguousarray(each).tobytes(), np.uint8) for each in arrays])
        got = np.asarray(multihost_utils.broadcast_one_to_all(flat))
        ends = np.cumsum([each.nbytes for each in arrays])
        parts = zip(np.split(got, ends[:-1]), arrays, strict=True)
        return iter([jax.numpy.asarray(part.copy().view(each.dtype).reshape(each.shape)) for part, each in parts])

    def before_step(self, batch: int, program: int) -> None:
        """Before the first step of a call, all processes must have the same batch and program. Both are checksums."""
        self.job.leaving.in_call = True  # also after a call that a callback made
        self._seen.batches = _checksum(str(batch).encode(), self._seen.batches)
        if self._starts:
            self._starts = False
            self._check_same("makes the first step of a call", program)
        self.job.num_steps += 1

    def assigned(self, name: str, value: Any) -> None:
        """A variable was set between steps."""
        self._seen.assigned[name] = _digest(value, self._seen.assigned.get(name, 0))

    def call_ended(self, failed: bool) -> None:
        """A call has ended here. If it ended well, wait until it has in all processes, and compare what they saw."""
        try:
            if not failed:
                self._check_same("ends a call")
        finally:
            self._thread, self._seen, self._starts = None, Seen(), False
            self.job.leaving.in_call = False

    def _check_same(self, moment: str, program: int = 0) -> None:
        """Raises `DataError` or `ModelError` if another process did something else than this one."""
        own = json.dumps([self._seen.batches, program, self._seen.assigned])
        of_all = [json.loads(each) for each in self.job.exchange(moment, own.encode())]
        rank = next((rank for rank, each in enumerate(of_all) if each != of_all[0]), None)
        if rank is None:
            return
        if of_all[rank][0] != of_all[0][0]:
            raise DataError(
                f"the processes read different batches: those of rank {rank} are not those of rank 0",
                "every process reads the whole data, and abreast takes its rows of each batch: leave out what gives each "
                "process a part (`shard`, a sampler, a slice by rank), and seed generators alike",
            )
        if of_all[rank][1] != of_all[0][1]:
            raise ModelError(
                f"the processes train different models: the compiled step of rank {rank} is not that of rank 0",
                "give layers, losses and optimizers the same settings in every process, random ones too: seed Python and NumPy "
                "alike before the model is made",
            )
        values, others = of_all[0][2], of_all[rank][2]
        name = next(name for name in [*values, *others] if values.get(name) != others.get(name))
        raise ModelError(
            f"between steps, {name} was set to other values on rank {rank} than on rank 0: the processes trained apart",
            "let callbacks that set weights do so in every process",
        )


@dataclass
class Seen:
    """What a call has seen in this process: a checksum of its batches, and one for each variable that was set between steps."""

    batches: int = 0
    assigned: dict[str, int] = field(default_factory=dict)


def refuse_eager(model: Any) -> None:
    """Raises `BackendError` for a model whose steps are not compiled: they cannot use arrays of other processes."""
    if model.run_eagerly or not model.jit_compile:
        raise BackendError(
            "JAX cannot train over several processes in steps that are not compiled",
            "leave out run_eagerly=True and jit_compile=False",
        )


def batch_digest(batch: HostBatch) -> int:
    """A checksum of some rows of each array, evenly spaced."""
    digest, step = batch.rows, max(1, batch.rows // _COMPARED_ROWS)
    for leaf in tree.flatten(batch.data):
        if leaf is not None:
            digest = _digest(leaf[::step], digest)
    return digest


def program_digest(program: Any, *arguments: Any) -> int:
    """A checksum of a compiled step: it holds every number that is no variable, such as the rate of a Dropout."""
    return _checksum(program.lower(*arguments).as_text().encode())


def _digest(value: Any, before: int = 0) -> int:
    return _checksum(np.ascontiguousarray(np.asarray(value)).reshape(-1).view(np.uint8), before)


def _checksum(data: Any, before: int = 0) -> int:
    return zlib.crc32(data, before)
