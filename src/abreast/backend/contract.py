"""The seam: what a framework must offer so that everything above it need not ask which one runs.

Imports no framework. `backend/jax/backend.py`, `backend/tensorflow/backend.py` and `backend/torch/backend.py` implement it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from abreast.backend.registry import TITLES, BackendName
from abreast.errors import LaunchError
from abreast.feed import DEFAULT_STAGING, HostBatch, Staging
from abreast.launchers import World

BatchNorm = Literal["global", "local"]
Kind = Literal["train", "test", "predict"]


@dataclass(frozen=True)
class Placement:
    """Where a model lives: one replica per device; how BatchNormalization counts rows; how far its feed works ahead.

    `check_rows`: whether backends whose replicas see their own rows look first for layers that relate rows.
    """

    backend: Backend
    devices: tuple[str, ...]
    batch_norm: BatchNorm = "global"
    check_numerics: bool = False
    staging: Staging = DEFAULT_STAGING
    check_rows: bool = True

    @property
    def num_devices(self) -> int:
        return len(self.devices)


@dataclass(frozen=True)
class DeviceTimes:
    """What `mark` and `finished` tell: of which devices, and whether sums over devices are told apart from computing."""

    devices: tuple[str, ...]
    all_reduce: bool
    notes: tuple[str, ...] = ()  # for the user: what is not told


class Tracer(Protocol):
    """A framework's profiler that runs."""

    def begin_step(self, number: int) -> None:
        """Name what follows, until `end_step`."""
        ...

    def end_step(self) -> None: ...

    def stop(self) -> str | None:
        """Write its files and give how to open them; None, from a thread that cannot stop it. Called again, the same."""
        ...


class Backend(Protocol):
    """One framework. A placement is made once per `DataParallel`; models come to it when they are first used."""

    @property
    def name(self) -> str: ...

    def use_cpu_devices(self, count: int) -> None:
        """Simulate `count` CPU devices; raises `BackendError` once the framework has started with fewer."""
        ...

    def device_names(self) -> tuple[str, ...]:
        """Every device that this process can drive, as `gpu:0` or `cpu:0`, without taking their memory."""
        ...

    def join(self, world: World) -> tuple[str, ...]:
        """Take part in a job whose processes somebody else started; gives a name per rank. Raises `LaunchError`."""
        ...

    def install(self, devices: tuple[str, ...]) -> None:
        """Let Keras's trainer of this backend accept our feed; hide all other accelerators if nothing has started yet."""
        ...

    def source(self, adapter: Any) -> Callable[[], Iterator[Any]]:
        """Give a function that begins an epoch of host batches of a Keras data adapter, in plain Keras's order."""
        ...

    def watched_dataset(self, dataset: Any, begin: Callable[[], Callable[[Any], None]]) -> Any | None:
        """A `tf.data` pipeline that shows its batches to what `begin` gives, called at each iterator's first batch.

        None where Keras's trainer iterates over such a pipeline in Python.
        """
        ...

    def put(self, batch: HostBatch, placement: Placement) -> Any:
        """Begin to copy each device's shard to it and return at once. Called from a thread of the feed."""
        ...

    def discard(self, staged: Any) -> None:
        """Give back what `put` gave for a batch that no step will run."""
        ...

    def drawn(self, placement: Placement) -> bytes | None:
        """The state of the random generator that steps and sources both draw from; None where they share none."""
        ...

    def place(self, model: Any, placement: Placement) -> None:
        """Replicate the variables of a built model over the devices of its placement."""
        ...

    def step_function(self, kind: Kind, model: Any, placement: Placement) -> Callable[..., Any]:
        """Give what Keras's trainer of this backend expects in `model.train_function` and its two siblings."""
        ...

    def settle(self, model: Any, placement: Placement, failed: bool) -> None:
        """End one call of `fit`, `evaluate` or `predict`; after a failure, leave the last finished step's weights."""
        ...

    def device_times(self, placement: Placement | None) -> DeviceTimes:
        """What can be told of the devices of a placement, or of plain Keras, without a profiler."""
        ...

    def mark(self, outputs: Any) -> Any:
        """Note, without waiting, the work that ends with a step's outputs; None when it had ended as the step returned."""
        ...

    def finished(self, handle: Any) -> tuple[int, ...]:
        """Wait for marked work, in any thread; gives when each device had done it, by `perf_counter_ns`, or one time for all."""
        ...

    def trace(self, logdir: str) -> Tracer:
        """Start the framework's profiler; raises `BackendError` when one runs already."""
        ...

    def random_state(self) -> Any:
        """The framework's global random generator as it is now, for `set_random_state`; None where there is none."""
        ...

    def set_random_state(self, state: Any) -> None: ...

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        """How long the devices take to sum float32 numbers of that size, one buffer of each, with nothing else running.

        0 where one process does not lead all devices.
        """
        ...

    def close(self, placement: Placement) -> None:
        """Give back processes and memory that the placement holds."""
        ...


def refuse(world: World, framework: BackendName) -> LaunchError:
    """The error of a backend that drives all devices from one process."""
    return LaunchError(
        f"{world.source} started {world.size} processes, but {TITLES[framework]} trains on all devices of a host from one",
        f"start one process (`abreast run --devices N script.py`); several hosts work with {TITLES['torch']}",
    )
