"""Instruments of a backend: device times, the profiler, random generators, the time of all-reduce, and state for checkpoints.

Training works without them. The timeline, the doctor, `abreast machine` and checkpoints use them. Imports no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from abreast.backend.contract import Placement
    from abreast.feed import HostBatch

Mark = TypeVar("Mark")
RandomState = TypeVar("RandomState")
Sums = Sequence[tuple[Any, Any]]  # variables, each with the parts of its sum as one array


@dataclass(frozen=True)
class DeviceTimes:
    """The devices that `mark` and `finished` time, and whether all-reduce is timed separately from computing."""

    devices: tuple[str, ...]
    all_reduce: bool
    notes: tuple[str, ...] = ()  # texts for the user that name times that cannot be measured


class Tracer(Protocol):
    """A framework's profiler that runs."""

    def begin_step(self, number: int) -> None:
        """Record the events until `end_step` under this step."""
        ...

    def end_step(self) -> None: ...

    def stop(self) -> str | None:
        """Write the profiler's files and return instructions to open them; None in a thread that cannot stop it.

        A second call returns the same text.
        """
        ...


class Kept(Protocol):
    """Values at one moment."""

    def put_back(self) -> None: ...


class Instruments(Protocol[Mark, RandomState]):
    """The instruments of one backend. `Mark`: work on devices that it can wait for. `RandomState`: its generators' state."""

    def device_times(self, placement: Placement | None) -> DeviceTimes:
        """The device times that can be measured without a profiler, for a placement or, with None, for plain Keras."""
        ...

    def mark(self, outputs: Any) -> Mark | None:
        """Mark, without waiting, the work that ends with a step's outputs; None if the work ended before the step returned."""
        ...

    def finished(self, mark: Mark) -> tuple[int, ...]:
        """Wait for marked work, in any thread. Returns each device's finish time (`perf_counter_ns`), or one time for all."""
        ...

    def trace(self, logdir: str) -> Tracer:
        """Start the framework's profiler; raises `BackendError` if one runs already."""
        ...

    def random_state(self, model: Any) -> RandomState | None:
        """The state of the framework's global random generator, in each process where a model's steps draw.

        None if the framework has no such generator. Without a model: the state of this process only.
        """
        ...

    def set_random_state(self, state: RandomState | None, model: Any) -> None:
        """Restore the result of `random_state`. The backend's own worker processes take it over at the model's next step."""
        ...

    def keep_buffers(self, model: Any) -> Kept | None:
        """Keep the state of layers outside Keras's variables, such as buffers of PyTorch's modules; None if there is none."""
        ...

    def rest(self, model: Any) -> None:
        """Between two steps of a call: combine the values of all replicas in the model's variables. Every process calls it."""
        ...

    def keep_assigned(self, model: Any) -> None:
        """Keep values that were assigned to variables between two steps, even if no other step follows."""
        ...

    def adds_up(self, model: Any) -> bool:
        """Whether replicas keep sums of their own that `read_sums` does not give: `rest` rounds them, so a checkpoint waits."""
        ...

    def read_sums(self, model: Any) -> Sums:
        """Each variable that holds a separate sum per replica, with the parts that `rest` would add up."""
        ...

    def write_sums(self, sums: Sums, model: Any) -> None:
        """Give the replicas the parts of the variables' sums, if there are as many parts as replicas."""
        ...

    def rounds_anew(self, model: Any, placement: Placement, steps: int) -> str | None:
        """A text that names sums that round differently after a restart on as many devices; None if there are none.

        `steps`: the finished steps of the present epoch.
        """
        ...

    def build(self, model: Any, first_batch: Callable[[], HostBatch]) -> None:
        """Make the variables that the first step would make. Reads a batch only if Keras has not made them before."""
        ...

    def view(self, variable: Any) -> np.ndarray:
        """The value of a Keras variable, without a copy if it is in host memory; valid until the next step."""
        ...

    def read_buffers(self, model: Any) -> dict[str, Any]:
        """Copies, as NumPy arrays, of the state outside Keras's variables: of layers, and gradients that an own step has left."""
        ...

    def write_buffers(self, model: Any, values: Mapping[str, Any]) -> None:
        """Set the buffers that `read_buffers` returned. Raises `CheckpointError` if the model has other buffers."""
        ...

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        """Seconds to sum one float32 buffer of that size per device over all devices, with nothing else running.

        0 if this process does not lead all devices.
        """
        ...

    def use_deterministic_kernels(self) -> None:
        """Use kernels that add in the same order in each run, if the variables of `deterministic.py` do not choose them."""
        ...


class Defaults:
    """Defaults for `Instruments` of a backend that keeps no state besides a model's variables between two steps."""

    def use_deterministic_kernels(self) -> None:
        pass

    def keep_assigned(self, model: Any) -> None:
        pass

    def adds_up(self, model: Any) -> bool:
        return False

    def read_sums(self, model: Any) -> Sums:
        return ()

    def write_sums(self, sums: Sums, model: Any) -> None:
        pass

    def rounds_anew(self, model: Any, placement: Placement, steps: int) -> str | None:
        return None
