"""The seam: what a framework must do so that models train, and everything above need not ask which one runs.

`registry.py` lists the backends, `jax/`, `tensorflow/` and `torch/` implement this, `fake.py` does for tests. Not here: what only
looks on (`instruments.py`). Importing this loads neither Keras nor a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from abreast.launchers import World
from abreast.staging import DEFAULT_STAGING, Stage, Staged, Staging

if TYPE_CHECKING:
    from abreast.backend.instruments import Instruments

BatchNorm = Literal["global", "local"]
SourceKind = Literal["global", "per-host"]
Kind = Literal["train", "test", "predict"]


@dataclass(frozen=True)
class Placement:
    """Where a model lives: one replica per device; how BatchNormalization counts rows; how far its feed works ahead.

    `check_rows`: whether backends whose replicas see their own rows look first for layers that relate rows. `source`: whether
    each process of a launcher reads the whole data, or rows of its own.
    """

    backend: Backend[Any]
    devices: tuple[str, ...]
    batch_norm: BatchNorm = "global"
    check_numerics: bool = False
    staging: Staging = DEFAULT_STAGING
    check_rows: bool = True
    source: SourceKind = "global"

    @property
    def is_per_host(self) -> bool:
        """Whether each process gives rows of its own."""
        return self.source == "per-host"

    @property
    def num_devices(self) -> int:
        return len(self.devices)


@dataclass(frozen=True)
class StepFunction:
    """The steps of one kind of a model. Until `Backend.settle`, the backend may hold the model's variables.

    `run` has one shape: it takes the next `steps_per_execution` batches of an iterator, or as many as there are, and returns
    the logs of the last step; of `predict` the outputs for all rows. Raises `StopIteration` where no batch is left.
    `for_keras` does the same in the shape in which Keras's trainer of the backend calls `model.train_function`.
    """

    run: Callable[[Iterator[Any]], Any]
    for_keras: Callable[..., Any]


class Job(Protocol):
    """The processes that a launcher started, as one of them sees them. All make the same calls in the same order."""

    predicts_for_rank_0: bool
    """Whether `predict` runs for rank 0 alone: the other processes then keep none of its outputs."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def exchange(self, doing: str, own: bytes) -> list[bytes]:
        """A short message of each rank, in their order. Raises `WorkerError` if another process is `doing` something else."""
        ...

    def failed(self, why: str) -> None:
        """This process is about to raise an error that the others do not have: they end, and name it."""
        ...

    def share_variables(self, model: Any, placement: Placement) -> None:
        """Between two steps: give every process the variables of rank 0, those of the optimizer too."""
        ...


class Backend(Protocol[Staged]):
    """One framework. A placement is made once per `DataParallel`; models come to it when they are first used."""

    @property
    def name(self) -> str: ...

    @property
    def steps_run_python(self) -> bool:
        """Whether each step runs the model's own Python code; else only the first one does, which compiles."""
        ...

    @property
    def instruments(self) -> Instruments[Any, Any]: ...

    def use_cpu_devices(self, count: int) -> None:
        """Simulate `count` CPU devices; raises `BackendError` once the framework has started with fewer."""
        ...

    def device_names(self) -> tuple[str, ...]:
        """Every device that this process can drive, as `gpu:0` or `cpu:0`, without taking their memory."""
        ...

    def join(self, world: World) -> tuple[str, ...]:
        """Take part in a job whose processes somebody else started; returns a name per device of all. Raises `LaunchError`."""
        ...

    @property
    def job(self) -> Job | None:
        """The job that this process has joined; None for a process that trains by itself."""
        ...

    def install(self, devices: tuple[str, ...]) -> None:
        """Let Keras's trainer of this backend accept our feed; hide all other accelerators if nothing has started yet."""
        ...

    def taking_over(self, num_devices: int) -> AbstractContextManager[None]:
        """Inside, the framework's own means to place Keras models lead to `num_devices` devices of abreast, or are refused."""
        ...

    def source(self, adapter: Any, placement: Placement | None = None) -> Callable[[], Iterator[Any]]:
        """A function that begins an epoch of host batches of a Keras data adapter, in plain Keras's order.

        For the steps of a `placement` over several processes, the batches may be parts (`feed/parts.py`), or, per host, batches
        of this process's own rows.
        """
        ...

    def stage(self, placement: Placement) -> Stage[Staged]:
        """How batches are staged on the devices of a placement."""
        ...

    def place(self, model: Any, placement: Placement) -> None:
        """Replicate the variables of a built model over the devices of its placement."""
        ...

    def step_function(self, kind: Kind, model: Any, placement: Placement) -> StepFunction:
        """The steps of one kind of a model on its devices."""
        ...

    def settle(self, model: Any, placement: Placement, failed: bool) -> None:
        """End one call of `fit`, `evaluate` or `predict`; after a failure, leave the last finished step's weights."""
        ...

    def close(self, placement: Placement) -> None:
        """Give back the processes that the placement holds. A backend of one process has none."""
        ...
