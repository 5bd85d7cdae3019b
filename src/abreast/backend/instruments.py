"""Instruments of a backend, which only look on: times of devices, the profiler, the random generator, all-reduce timed alone.

Training works without all of it; the timeline, the doctor and `abreast machine` read it. Imports no framework.
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
    """The devices that `mark` and `finished` time, and whether all-reduce is timed apart from computing."""

    devices: tuple[str, ...]
    all_reduce: bool
    notes: tuple[str, ...] = ()  # what cannot be measured, for the user


class Tracer(Protocol):
    """A framework's profiler that runs."""

    def begin_step(self, number: int) -> None:
        """Give what follows, until `end_step`, the name of a step."""
        ...

    def end_step(self) -> None: ...

    def stop(self) -> str | None:
        """Write the profiler's files and return how to open them; None in a thread that cannot stop it.

        A second call returns the same.
        """
        ...


class Kept(Protocol):
    """Values at one moment."""

    def put_back(self) -> None: ...


class Instruments(Protocol[Mark, RandomState]):
    """The instruments of one backend: `Mark` is work on devices that it can wait for, `RandomState` that of its generator."""

    def device_times(self, placement: Placement | None) -> DeviceTimes:
        """The device times that can be measured without a profiler, for a placement or (None) for plain Keras."""
        ...

    def mark(self, outputs: Any) -> Mark | None:
        """Note, without waiting, the work that ends with a step's outputs; None when it had ended as the step returned."""
        ...

    def finished(self, mark: Mark) -> tuple[int, ...]:
        """Wait for marked work, in any thread. Returns when each device had done it (`perf_counter_ns`), or one time for all."""
        ...

    def trace(self, logdir: str) -> Tracer:
        """Start the framework's profiler; raises `BackendError` when one runs already."""
        ...

    def random_state(self, model: Any) -> RandomState | None:
        """The state of the framework's global random generator, in each process that steps of a model draw in.

        None where the framework has none. Without a model: of this process alone.
        """
        ...

    def set_random_state(self, state: RandomState | None, model: Any) -> None:
        """Put back what `random_state` returned. Processes of the backend's own take it over at the model's next step."""
        ...

    def keep_buffers(self, model: Any) -> Kept | None:
        """Keep what layers hold outside of Keras's variables, as PyTorch's modules do; None where there is no such thing."""
        ...

    def rest(self, model: Any) -> None:
        """Between two steps of a call: let the model's variables have the values of all replicas. Every process calls it."""
        ...

    def keep_assigned(self, model: Any) -> None:
        """Variables were assigned between two steps: they keep these values also where no other step follows."""
        ...

    def adds_up(self, model: Any) -> bool:
        """Whether replicas keep sums of their own that `read_sums` does not give: `rest` rounds them, so a checkpoint waits."""
        ...

    def read_sums(self, model: Any) -> Sums:
        """The parts that `rest` would add up, of variables in which each replica has its own."""
        ...

    def write_sums(self, sums: Sums, model: Any) -> None:
        """Let replicas have parts of sums that the variables have, if there are as many of them as replicas."""
        ...

    def rounds_anew(self, model: Any, placement: Placement, steps: int) -> str | None:
        """The sums that are rounded otherwise where a training goes on in a new process on as many devices, in words; or None.

        `steps`: those of the present epoch that are done.
        """
        ...

    def build(self, model: Any, first_batch: Callable[[], HostBatch]) -> None:
        """Make the variables that the first step would make, where Keras makes none before; only there, a batch is read."""
        ...

    def view(self, variable: Any) -> np.ndarray:
        """The value of a Keras variable, without a copy where it is in memory of the host; valid until the next step."""
        ...

    def read_buffers(self, model: Any) -> dict[str, Any]:
        """Copies, as NumPy arrays, of what layers hold outside of Keras's variables."""
        ...

    def write_buffers(self, model: Any, values: Mapping[str, Any]) -> None:
        """Set what `read_buffers` returned. Raises `CheckpointError` if the model has other buffers."""
        ...

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        """Seconds in which the devices sum float32 numbers of that size, one buffer of each, with nothing else running.

        0 where this process does not lead all devices.
        """
        ...


class Defaults:
    """For `Instruments` of a backend that keeps nothing beside a model's variables between two steps."""

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
