"""JAX: one process, one compiled program over a mesh; XLA inserts the all-reduces.

Rows are sharded over the mesh's one axis and variables are replicated, so every operation of a step means the same as on
one device. A batch that does not divide is padded for the transfer and cut back to its rows inside the program, where XLA
shards uneven arrays itself: no mask is needed, and a user's own `train_step` is exact too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import jax
import keras
import numpy as np
from jax._src.xla_bridge import backends_are_initialized
from jax.sharding import NamedSharding

from abreast import exact, keras_distribution
from abreast.arrays import map_arrays
from abreast.backend.contract import Kind, Placement, StepFunction
from abreast.backend.jax import cpu_threads, remat_once
from abreast.backend.jax.devices import (
    OF_ALL_PROCESSES,
    VISIBLE,
    device_names,
    index_of,
    placed,
    platform,
    replicated_over,
    sharded_over,
)
from abreast.backend.jax.instruments import JaxInstruments
from abreast.backend.jax.job import refuse_other_jobs
from abreast.backend.jax.launched import Launched, held_variables, refuse_eager
from abreast.backend.jax.staged import StagedBatch, padded
from abreast.backend.jax.step import Newest, Steps, apart, check_memory
from abreast.backend.tensorflow.guard import keep_off_gpus
from abreast.errors import BackendError
from abreast.feed import Feed, HostBatch, Part, ReadsParts, array_parts, dataset_views, own_reading
from abreast.keras_private.data_adapters import ArrayDataAdapter, TFDatasetAdapter, array_order, array_reader
from abreast.keras_private.jax import JAXEpochIterator, reads_ahead
from abreast.launchers import World
from abreast.shares import OwnRows, shares_of
from abreast.staging import Stage


class JaxBackend:
    """See `backend/contract.py`."""

    name: Final = "jax"
    steps_run_python: Final = False
    instruments: JaxInstruments

    def __init__(self) -> None:
        self.instruments = JaxInstruments()
        self._launched: Launched | None = None
        self._newest: WeakKeyDictionary[Any, Newest] = WeakKeyDictionary()
        self._installed = False

    def use_cpu_devices(self, count: int) -> None:
        try:
            jax.config.update("jax_platforms", "cpu")
            jax.config.update("jax_num_cpu_devices", count)
            cpu_threads.provide(count)
        except RuntimeError as error:
            if platform() == "cpu" and len(jax.devices()) == count:
                return
            raise BackendError(
                f"JAX has already started, with {len(jax.devices())} {platform()} device(s)",
                "call abreast.use_cpu_devices before anything is computed",
            ) from error

    def device_names(self) -> tuple[str, ...]:
        return device_names()

    def join(self, world: World) -> tuple[str, ...]:
        if self._launched is None:
            self._launched = Launched(world)
            OF_ALL_PROCESSES.extend(self._launched.names)
        return self._launched.names

    @property
    def job(self) -> Launched | None:
        return self._launched

    def install(self, devices: tuple[str, ...]) -> None:
        if self._launched is None:
            refuse_other_jobs()
        cpu_threads.check(self.device_names() if self._launched else devices)
        if devices[0].startswith("gpu:") and not VISIBLE and not backends_are_initialized():
            VISIBLE.extend(sorted(devices, key=index_of))
            jax.config.update("jax_cuda_visible_devices", ",".join(str(index_of(name)) for name in VISIBLE))
        if self._installed:
            return
        self._installed = True
        keep_off_gpus()
        epoch_iterator: Any = JAXEpochIterator
        plain = epoch_iterator._get_iterator

        def get_iterator(self: Any) -> Any:
            # Plain Keras would copy each batch to one device first.
            return iter(self.data_adapter) if isinstance(self.data_adapter, Feed) else plain(self)

        epoch_iterator._get_iterator = get_iterator

    def taking_over(self, num_devices: int) -> AbstractContextManager[None]:
        return nullcontext()  # `keras.distribution` is Keras's own

    def source(self, adapter: Any, placement: Placement | None = None) -> Callable[[], Iterator[Any]]:
        def epoch() -> Iterator[Any]:
            if self._launched is not None and not (placement is not None and placement.is_per_host):
                self._launched.agree_on_order()
                if placement is not None and (parts := _parts(adapter, self._launched.own_rows)) is not None:
                    return parts
            return dataset_views(adapter) if isinstance(adapter, TFDatasetAdapter) else iter(adapter.get_jax_iterator())

        return epoch

    def stage(self, placement: Placement) -> Stage[StagedBatch]:
        processes = self._launched if placement.is_per_host else None
        return Stage(partial(self.put, placement=placement), processes=processes, keras_reads_ahead=reads_ahead)

    def put(self, batch: HostBatch, placement: Placement) -> StagedBatch:
        if placement.num_devices == 1 and placement.devices[0].startswith("cpu"):
            return StagedBatch(batch.data, batch.rows, batch.rows)  # the program takes it as it is
        if self._launched is not None and placement.is_per_host:
            return self._launched.put_own(batch)
        padded_rows = shares_of(batch.rows, placement.num_devices).padded_rows
        sharded = sharded_over(placement.devices)
        digest, first = 0, 0
        if self._launched is not None:
            digest = batch.compared
            first = 0 if batch.held is None else batch.held.start
        data = map_arrays(lambda leaf: _spread(leaf, padded_rows, sharded, first), batch.data)
        return StagedBatch(data, batch.rows, padded_rows, digest)

    def place(self, model: Any, placement: Placement) -> None:
        keras_distribution.accept_current()
        replicated = replicated_over(placement.devices)
        if self._launched is not None:
            refuse_eager(model)
            self._launched.agree_on_variables(held_variables(model))
            return
        variables = held_variables(model)
        values = [variable._value for variable in variables]
        check_memory(values, variables)
        [values] = apart([values])
        for variable, value in zip(variables, placed(values, replicated), strict=True):
            variable._value = value

    def step_function(self, kind: Kind, model: Any, placement: Placement) -> StepFunction:
        _announce(model, placement)
        if placement.num_devices > 1:
            remat_once.announce(model)
        steps = Steps(kind, model, placement, self.stage(placement), self._newest, self._launched)
        return StepFunction(steps.run, steps.for_keras)

    def settle(self, model: Any, placement: Placement, failed: bool) -> None:
        newest = self._newest.pop(model, None)
        if newest is not None:
            newest.put_back()
        if self._launched is not None:
            self._launched.call_ended(failed)

    def close(self, placement: Placement) -> None:
        pass


def _announce(model: Any, placement: Placement) -> None:
    """Warn once about layers that `batch_norm="local"` does not reach: functions that are not Keras's."""
    names = [layer.name for layer in model._flatten_layers() if isinstance(layer, keras.layers.JaxLayer)]
    if names and placement.batch_norm == "local" and placement.num_devices > 1:
        exact.warn_once(
            model,
            "local",
            f'batch_norm="local" holds for keras.layers.BatchNormalization: {", ".join(names)} see the global batch, and '
            "normalize by it if they normalize",
        )


def _parts(adapter: Any, own_rows: OwnRows) -> Iterator[Part] | None:
    """The parts of a source's batches; None for a source that must be read whole."""
    if isinstance(adapter, ReadsParts):
        return adapter._parts(own_rows)
    if isinstance(adapter, ArrayDataAdapter):
        return array_parts(array_order(adapter), array_reader(adapter), own_rows)
    if (own := own_reading(adapter, own_rows)) is not None:
        return own.parts(iter(own.adapter.get_jax_iterator()))
    return None


def _spread(leaf: Any, rows: int, sharded: NamedSharding, first: int = 0) -> Any:
    """A leaf's shards on their devices, padded to `rows`. Its own rows begin at row `first`."""
    if sharded.is_fully_addressable and len(leaf) == rows and not isinstance(leaf, np.ndarray):
        return jax.device_put(leaf, sharded)
    array = np.asarray(leaf)  # from here on, as `device_put` in a third of its time

    def shard(index: Any) -> np.ndarray[Any, Any]:
        return padded(array, slice(*index[0].indices(rows)), first)

    return jax.make_array_from_callback((rows, *array.shape[1:]), sharded, shard)


BACKEND = JaxBackend()
