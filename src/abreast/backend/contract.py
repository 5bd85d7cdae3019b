"""The interface that a framework implements to train models. The code above it does not depend on which framework runs.

`registry.py` lists the backends. `jax/`, `tensorflow/` and `torch/` implement this; `fake.py` does so for tests. Not here:
measurements (`instruments.py`). Importing this loads neither Keras nor a framework.
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
    """A model's devices, one replica on each; the rows that BatchNormalization uses; the settings of the model's feed.

    `check_rows`: whether backends whose replicas see only their own rows first search for layers that relate rows. `source`:
    whether each process of a launcher reads the whole data, or rows of its own.
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
        """Whether each process supplies rows of its own."""
        return self.source == "per-host"

    @property
    def num_devices(self) -> int:
        return len(self.devices)


@dataclass(frozen=True)
class StepFunction:
    """The steps of one kind of a model. Until `Backend.settle`, the backend may hold the model's variables.

    `run` takes the next `steps_per_execution` batches of an iterator, or the remaining ones, and returns the logs of the last
    step; for `predict`, the outputs for all rows. Raises `StopIteration` if no batch remains. `for_keras` does the same with
    the signature by which Keras's trainer of the backend calls `model.train_function`.
    """

    run: Callable[[Iterator[Any]], Any]
    for_keras: Callable[..., Any]


class Job(Protocol):
    """The processes that a launcher started, seen from one of them. All make the same calls in the same order."""

    predicts_for_rank_0: bool
    """Whether `predict` runs for rank 0 alone: the other processes then keep none of its outputs."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def exchange(self, doing: str, own: bytes) -> list[bytes]:
        """A short message from each rank, in rank order. Raises `WorkerError` if another process is `doing` something else."""
        ...

    def failed(self, why: str) -> None:
        """Announce an error that only this process is about to raise: the others end, and name it."""
        ...

    def explained(self, error: Exception) -> Exception:
        """An error that names the process that is gone, if the framework's own error follows from that; else the same error."""
        ...

    def share_variables(self, model: Any, placement: Placement) -> None:
        """Between two steps: give every process rank 0's variables, including the optimizer's."""
        ...


class Backend(Protocol[Staged]):
    """One framework. Each `DataParallel` makes one placement; a model joins it when it is first used."""

    @property
    def name(self) -> str: ...

    @property
    def steps_run_python(self) -> bool:
        """Whether each step runs the model's Python code; otherwise only the first step does, which compiles."""
        ...

    @property
    def instruments(self) -> Instruments[Any, Any]: ...

    def use_cpu_devices(self, count: int) -> None:
        """Simulate `count` CPU devices; raises `BackendError` once the framework has started with fewer."""
        ...

    def device_names(self) -> tuple[str, ...]:
        """Every device that this process can drive, such as `gpu:0` or `cpu:0`, found without taking its memory."""
        ...

    def join(self, world: World) -> tuple[str, ...]:
        """Join a job whose processes a launcher started; returns the names of the devices of all. Raises `LaunchError`."""
        ...

    @property
    def job(self) -> Job | None:
        """The job that this process has joined; None for a process that trains by itself."""
        ...

    def install(self, devices: tuple[str, ...]) -> None:
        """Make Keras's trainer of this backend accept our feed; hide all other accelerators if the framework has not started."""
        ...

    def taking_over(self, num_devices: int) -> AbstractContextManager[None]:
        """Inside, the framework's own ways to place Keras models use `num_devices` devices of abreast, or are refused."""
        ...

    def source(self, adapter: Any, placement: Placement | None = None) -> Callable[[], Iterator[Any]]:
        """A function that begins an epoch of host batches of a Keras data adapter, in plain Keras's order.

        For the steps of a `placement` over several processes, the batches may be parts (`feed/parts.py`), or, per host, batches
        of this process's own rows.
        """
        ...

    def stage(self, placement: Placement) -> Stage[Staged]:
        """The functions that stage batches on the devices of a placement."""
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
        """End the processes that the placement holds. A backend of one process has none."""
        ...
