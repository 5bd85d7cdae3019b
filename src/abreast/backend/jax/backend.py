"""JAX: one process, one compiled program over a mesh; XLA inserts the all-reduces.

Rows are sharded over the mesh's one axis and variables are replicated, so every operation of a step means what it means on
one device. A batch that does not divide is padded for the transfer and cut back to its rows inside the program, where XLA
shards uneven arrays itself: no mask is needed, and a user's own `train_step` is exact too.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from time import perf_counter_ns
from typing import Any, Final
from weakref import WeakKeyDictionary

import jax
import keras
import numpy as np
from jax._src.xla_bridge import backends_are_initialized
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from keras import tree
from keras.src.backend.jax import trainer as keras_trainer
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from abreast import exact
from abreast.backend.contract import DeviceTimes, Kind, Placement, Tracer, refuse
from abreast.backend.jax import all_reduce
from abreast.backend.jax.trace import JaxTracer
from abreast.backend.tensorflow.guard import keep_off_gpus
from abreast.errors import BackendError
from abreast.exact.local_norm import local_batch_norm
from abreast.feed import Feed, HostBatch, dataset_views, take
from abreast.hardware import list_devices
from abreast.launchers import World
from abreast.shares import shares_of

# Which variables Keras hands to a step, in its order, and what the state list of each is called.
_VARIABLES: dict[Kind, tuple[str, ...]] = {
    "train": ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables"),
    "test": ("trainable_variables", "non_trainable_variables", "metrics_variables"),
    "predict": ("trainable_variables", "non_trainable_variables"),
}


# The GPUs that JAX was started with, if we chose them; it numbers them from 0.
_VISIBLE: list[str] = []


@dataclass
class StagedBatch:
    """Arrays sharded over the mesh, padded to divide by its devices; the first `rows` rows are the batch."""

    data: Any
    rows: int
    padded_rows: int


@jax.tree_util.register_pytree_node_class
class _Values:
    """The values of some variables. Not a list: Keras would look at every one of them, at every step."""

    __slots__ = ("values",)

    def __init__(self, values: Any) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def tree_flatten(self) -> tuple[Any, None]:
        return self.values, None

    @classmethod
    def tree_unflatten(cls, _: None, values: Any) -> _Values:
        return cls(values)


@dataclass
class _State:
    """The newest variables of a running call: Keras takes them out of the model while it runs."""

    kind: Kind
    values: Any = field(default=None)
    variables: tuple[list[Any], ...] = ()  # whose values those are; a callback may freeze some of them meanwhile
    logs: Any = field(default=None)


class JaxBackend:
    """See `backend/contract.py`."""

    name: Final = "jax"

    def __init__(self) -> None:
        self._states: WeakKeyDictionary[Any, _State] = WeakKeyDictionary()
        self._installed = False

    def use_cpu_devices(self, count: int) -> None:
        try:
            jax.config.update("jax_platforms", "cpu")
            jax.config.update("jax_num_cpu_devices", count)
        except RuntimeError as error:
            if _platform() == "cpu" and len(jax.devices()) == count:
                return
            raise BackendError(
                f"JAX has already started, with {len(jax.devices())} {_platform()} device(s)",
                "call abreast.use_cpu_devices before anything is computed",
            ) from error

    def device_names(self) -> tuple[str, ...]:
        return (
            tuple(_VISIBLE) or _gpus_of_driver() or tuple(f"{_platform()}:{i}" for i in range(len(jax.local_devices())))
        )

    def join(self, world: World) -> tuple[str, ...]:
        raise refuse(world, self.name)

    def install(self, devices: tuple[str, ...]) -> None:
        if devices[0].startswith("gpu:") and not _VISIBLE and not backends_are_initialized():
            _VISIBLE.extend(sorted(devices, key=_index))
            jax.config.update("jax_cuda_visible_devices", ",".join(str(_index(name)) for name in _VISIBLE))
        if self._installed:
            return
        self._installed = True
        keep_off_gpus()
        epoch_iterator: Any = keras_trainer.JAXEpochIterator
        plain = epoch_iterator._get_iterator

        def get_iterator(self: Any) -> Any:
            # Plain Keras would copy each batch to one device first.
            return iter(self.data_adapter) if isinstance(self.data_adapter, Feed) else plain(self)

        epoch_iterator._get_iterator = get_iterator

    def source(self, adapter: Any) -> Callable[[], Iterator[Any]]:
        if isinstance(adapter, TFDatasetAdapter):
            return lambda: dataset_views(adapter)
        return lambda: iter(adapter.get_jax_iterator())

    def watched_dataset(self, dataset: Any, begin: Callable[[], Callable[[Any], None]]) -> Any | None:
        return None

    def put(self, batch: HostBatch, placement: Placement) -> StagedBatch:
        if placement.num_devices == 1 and placement.devices[0].startswith("cpu"):
            return StagedBatch(batch.data, batch.rows, batch.rows)  # the program takes it as it is
        padded_rows = shares_of(batch.rows, placement.num_devices).padded_rows
        sharded = _sharded(placement.devices)
        data = tree.map_structure(
            lambda leaf: None if leaf is None else _spread(leaf, padded_rows, sharded), batch.data
        )
        return StagedBatch(data, batch.rows, padded_rows)

    def discard(self, staged: Any) -> None:
        pass

    def drawn(self, placement: Placement) -> bytes | None:
        return None

    def place(self, model: Any, placement: Placement) -> None:
        replicated = _replicated(placement.devices)
        optimizer = getattr(model, "optimizer", None)
        for variable in [*model.variables, *(optimizer.variables if optimizer is not None else [])]:
            if variable._value is not None:
                variable._value = jax.device_put(variable._value, replicated)

    def step_function(self, kind: Kind, model: Any, placement: Placement) -> Callable[..., Any]:
        _announce(model, placement)
        program = _program(kind, model, placement)
        replicated = _replicated(placement.devices)
        newest = self._states[model] = _State(kind)
        simulated = placement.num_devices > 1 and _platform() == "cpu"
        put = partial(self.put, placement=placement)

        def one_step(state: Any, iterator: Any) -> Any:
            if state is not newest.values:  # Keras read the variables anew: a callback may have assigned to them.
                newest.values = tuple(_Values(jax.device_put(list(values), replicated)) for values in state)
                newest.variables = _variables(model, kind)
            staged = take(iterator, put).staged
            if simulated:  # with many steps under way, XLA's CPU threads can wait for one another until it aborts
                jax.block_until_ready(newest.logs)
            newest.logs, newest.values = program(newest.values, staged.data, staged.rows)
            return newest.logs, newest.values

        def steps(state: Any, iterator: Any) -> Any:
            self._states[model] = newest
            outputs = []
            try:
                for _ in range(model.steps_per_execution):
                    output, state = one_step(state, iterator)
                    outputs.append(output)
            except StopIteration:
                if not outputs:
                    raise
            if kind != "predict":
                return outputs[-1], state
            return tree.map_structure(lambda *parts: _concatenate(parts), *outputs), state

        return steps

    def settle(self, model: Any, placement: Placement, failed: bool) -> None:
        state = self._states.pop(model, None)
        if state is None or state.values is None:
            return
        for variables, values in zip(state.variables, state.values, strict=True):
            for variable, value in zip(variables, values, strict=True):
                if variable._value is None:
                    variable._value = value
        state.values, state.variables, state.logs = None, (), None

    def device_times(self, placement: Placement | None) -> DeviceTimes:
        if placement is None:
            return DeviceTimes((f"{_platform()}:0",), all_reduce=True)
        if placement.num_devices == 1:
            return DeviceTimes(placement.devices, all_reduce=True)
        return DeviceTimes(
            placement.devices, False, ("JAX sums in the program that computes: all-reduce is not told apart",)
        )

    def mark(self, outputs: Any) -> Any:
        for leaf in outputs.values() if isinstance(outputs, dict) else jax.tree.leaves(outputs):  # at every step: quick
            if hasattr(leaf, "block_until_ready"):
                return leaf
        return None

    def finished(self, handle: Any) -> tuple[int, ...]:
        num_devices = handle.sharding.num_devices
        if num_devices == 1:
            handle.block_until_ready()
            return (perf_counter_ns(),)
        times = []
        for index in range(num_devices):  # one that is done before an earlier one looks as late
            handle.addressable_data(index).block_until_ready()
            times.append(perf_counter_ns())
        return tuple(times)

    def trace(self, logdir: str) -> Tracer:
        return JaxTracer(logdir)

    def random_state(self) -> Any:
        return None

    def set_random_state(self, state: Any) -> None:
        pass

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        return all_reduce.seconds(_sharded(placement.devices), _replicated(placement.devices), size_bytes)

    def close(self, placement: Placement) -> None:
        pass


def _variables(model: Any, kind: Kind) -> tuple[list[Any], ...]:
    """The variables whose values a step of that kind takes, as they stand now."""
    names = _VARIABLES[kind]
    return tuple(
        list(model.optimizer.variables if name == "optimizer_variables" else getattr(model, name)) for name in names
    )


def _program(kind: Kind, model: Any, placement: Placement) -> Callable[..., Any]:
    """The compiled step: `(state, padded data, rows) -> (logs or outputs, state)`; one program per number of rows."""
    step: Any = getattr(model, f"{kind}_step")
    sharded, replicated = _sharded(placement.devices), _replicated(placement.devices)

    def keep_rows(leaf: Any, rows: int) -> Any:
        if leaf is None or leaf.shape[0] == rows:
            return leaf
        return jax.lax.with_sharding_constraint(leaf[:rows], sharded)

    def program(state: Any, data: Any, rows: int) -> Any:
        with local_batch_norm(placement.num_devices) if placement.batch_norm == "local" else nullcontext():
            outputs, new_state = step(
                tuple(map(list, state)), tree.map_structure(lambda leaf: keep_rows(leaf, rows), data)
            )
        new_state = (state[0], new_state) if kind == "predict" else new_state
        return outputs, tuple(_Values(list(values)) for values in new_state)

    if model.run_eagerly or not model.jit_compile:
        sharded = replicated  # outside a program, JAX does not shard uneven arrays
        return program
    return jax.jit(program, static_argnums=2, donate_argnums=0, out_shardings=(None, replicated))


def _announce(model: Any, placement: Placement) -> None:
    """Say once where `batch_norm="local"` cannot reach: inside of functions that are not Keras's."""
    names = [layer.name for layer in model._flatten_layers() if isinstance(layer, keras.layers.JaxLayer)]
    if names and placement.batch_norm == "local" and placement.num_devices > 1:
        exact.warn_once(
            model,
            "local",
            f'batch_norm="local" holds for keras.layers.BatchNormalization: {", ".join(names)} see the global batch, and '
            "normalize by it if they normalize",
        )


def _platform() -> str:
    platform = jax.default_backend()
    return "gpu" if platform in ("cuda", "rocm") else platform


def _index(name: str) -> int:
    return int(name.partition(":")[2])


def _gpus_of_driver() -> tuple[str, ...]:
    """NVIDIA GPUs that JAX would find, while it has not started: asking JAX itself would take memory of every one."""
    platforms: Any = getattr(jax.config, "jax_platforms", None)
    if backends_are_initialized() or platforms == "cpu" or not _has_cuda():
        return ()
    return tuple(device.name for device in list_devices() if device.name.startswith("gpu:"))


def _has_cuda() -> bool:
    return any(importlib.util.find_spec(f"jax_cuda{version}_plugin") is not None for version in (12, 13, 14))


@lru_cache(maxsize=64)
def _mesh(devices: tuple[str, ...]) -> Mesh:
    names = _VISIBLE or [f"{_platform()}:{index}" for index in range(len(jax.local_devices()))]
    by_name = dict(zip(names, jax.local_devices(), strict=True))
    return Mesh(np.array([by_name[name] for name in devices]), ("batch",))


@lru_cache(maxsize=64)
def _sharded(devices: tuple[str, ...]) -> NamedSharding:
    return NamedSharding(_mesh(devices), PartitionSpec("batch"))


@lru_cache(maxsize=64)
def _replicated(devices: tuple[str, ...]) -> NamedSharding:
    return NamedSharding(_mesh(devices), PartitionSpec())


def _spread(leaf: Any, rows: int, sharded: NamedSharding) -> Any:
    """A leaf's shards on their devices, padded to `rows`."""
    if len(leaf) != rows:
        leaf = _pad(leaf, rows)
    if isinstance(leaf, np.ndarray):  # the same as `device_put`, in a third of its time
        return jax.make_array_from_callback(leaf.shape, sharded, leaf.__getitem__)
    return jax.device_put(leaf, sharded)


def _pad(leaf: Any, rows: int) -> np.ndarray[Any, Any]:
    """Repeat the last row: any value will do (it is cut off), but a real one cannot make a NaN."""
    array = np.asarray(leaf)
    return np.concatenate([array, np.broadcast_to(array[-1:], (rows - len(array), *array.shape[1:]))])


def _concatenate(parts: tuple[Any, ...]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate([np.asarray(part) for part in parts])


BACKEND = JaxBackend()
