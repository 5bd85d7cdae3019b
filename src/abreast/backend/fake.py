"""A backend for tests; a test chooses its devices, times and failures. NumPy only: no Keras, no framework, no thread.

Its models are linear and learn by gradient descent, so that a test can check every number by hand. Each device computes the
sums of its own rows, and the step adds them up: a replica without rows adds nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from abreast.backend.contract import Kind, Placement, StepFunction
from abreast.backend.instruments import Defaults, DeviceTimes
from abreast.backend.several_steps import results_of
from abreast.errors import BackendError, LaunchError
from abreast.shares import shares_of
from abreast.staging import Stage

if TYPE_CHECKING:
    from abreast.feed.batch import HostBatch
    from abreast.launchers import World

Array = np.ndarray[Any, np.dtype[np.floating[Any]]]


@dataclass
class FakeSettings:
    """A test's choices: the number of devices, the seconds that actions take, and failures by call number."""

    devices: int = 2
    put_seconds: float = 0.0
    step_seconds: tuple[float, ...] = (0.0,)  # by device; the last one holds for all further devices
    all_reduce_bytes_per_second: float = 1e9
    put_fails: dict[int, Exception] = field(default_factory=dict)  # by batch, from 0
    step_fails: dict[int, Exception] = field(default_factory=dict)  # by step, from 0

    def seconds_of(self, device: int) -> float:
        """Seconds that a device takes for a step."""
        return self.step_seconds[min(device, len(self.step_seconds) - 1)]


@dataclass
class FakeModel:
    """`x @ weights`, trained on the mean squared error by gradient descent."""

    weights: Array
    learning_rate: float = 0.1
    steps_per_execution: int = 1


@dataclass(frozen=True)
class PlainBatch:
    """A `HostBatch` of a tuple of arrays, without Keras."""

    data: tuple[Array, ...]

    @property
    def rows(self) -> int:
        return len(self.data[0])

    @property
    def num_bytes(self) -> int:
        return sum(array.nbytes for array in self.data)

    def cut(self, num_devices: int) -> list[tuple[Array, ...]]:
        return [tuple(array[rows] for array in self.data) for rows in shares_of(self.rows, num_devices).slices]


@dataclass
class StagedBatch:
    """Each device's shard, and the number of its valid rows."""

    shards: list[Any]
    counts: tuple[int, ...]
    num_bytes: int


@dataclass(frozen=True)
class FakeMark:
    """The time when each device finishes (`perf_counter_ns`)."""

    ends_ns: tuple[int, ...]


class FakeBackend:
    """See `contract.py`. `staged_bytes`: bytes on the devices that wait for their step. `log`: the names of calls, in order."""

    name: Final = "fake"
    steps_run_python: Final = True
    instruments: FakeInstruments

    def __init__(self, plan: FakeSettings | None = None) -> None:
        self.plan = plan or FakeSettings()
        self.instruments = FakeInstruments(self)
        self.staged_bytes = 0
        self.log: list[str] = []
        self.ends_ns: tuple[int, ...] = ()  # of the newest step, by device
        self.generators = [np.random.default_rng(device) for device in range(self.plan.devices)]
        self._num_puts = self._num_steps = 0
        self._has_started = False

    def use_cpu_devices(self, count: int) -> None:
        if self._has_started and count != self.plan.devices:
            raise BackendError(
                f"the fake backend has already started, with {self.plan.devices} device(s)",
                "call use_cpu_devices before anything is computed",
            )
        self.plan.devices = count

    def device_names(self) -> tuple[str, ...]:
        return tuple(f"cpu:{index}" for index in range(self.plan.devices))

    def join(self, world: World) -> tuple[str, ...]:
        raise LaunchError(f"{world.source} started {world.size} processes", "the fake backend has one")

    @property
    def job(self) -> None:
        return None

    def install(self, devices: tuple[str, ...]) -> None:
        self.log.append(f"install {' '.join(devices)}")

    def taking_over(self, num_devices: int) -> AbstractContextManager[None]:
        return nullcontext()

    def source(self, adapter: Any, placement: Placement | None = None) -> Callable[[], Iterator[Any]]:
        return lambda: iter(adapter)

    def stage(self, placement: Placement) -> Stage[StagedBatch]:
        return Stage(partial(self._put, placement), self._discard)

    def place(self, model: FakeModel, placement: Placement) -> None:
        self.log.append(f"place {' '.join(placement.devices)}")

    def step_function(self, kind: Kind, model: FakeModel, placement: Placement) -> StepFunction:
        run = partial(self._run, kind, model, self.stage(placement))
        return StepFunction(run, run)

    def settle(self, model: FakeModel, placement: Placement, failed: bool) -> None:
        self.log.append("settle failed" if failed else "settle")

    def close(self, placement: Placement) -> None:
        self.log.append("close")

    def _put(self, placement: Placement, batch: HostBatch | PlainBatch) -> StagedBatch:
        number, self._num_puts = self._num_puts, self._num_puts + 1
        time.sleep(self.plan.put_seconds)
        if number in self.plan.put_fails:
            raise self.plan.put_fails[number]
        counts = shares_of(batch.rows, placement.num_devices).counts
        self.staged_bytes += batch.num_bytes
        return StagedBatch(batch.cut(placement.num_devices), counts, batch.num_bytes)

    def _discard(self, staged: StagedBatch) -> None:
        self.staged_bytes -= staged.num_bytes

    def _run(self, kind: Kind, model: FakeModel, stage: Stage[StagedBatch], batches: Iterator[Any]) -> Any:
        results = results_of(lambda: self._step(kind, model, _take(batches, stage)), model.steps_per_execution)
        return np.concatenate(results) if kind == "predict" else results[-1]

    def _step(self, kind: Kind, model: FakeModel, staged: StagedBatch) -> Any:
        self._discard(staged)
        number, self._num_steps = self._num_steps, self._num_steps + 1
        self._has_started = True
        if number in self.plan.step_fails:
            raise self.plan.step_fails[number]
        self._take_time(len(staged.counts))
        pairs = list(zip(staged.shards, staged.counts, strict=True))
        if kind == "predict":
            return np.concatenate([shard[0][:count] @ model.weights for shard, count in pairs])
        errors = [(shard[0][:count] @ model.weights - shard[1][:count], shard[0][:count]) for shard, count in pairs]
        rows = sum(staged.counts)
        loss = sum(float((error**2).sum()) for error, _ in errors) / rows
        if kind == "train":
            gradient = sum(2 * x.T @ error for error, x in errors) / rows
            model.weights = model.weights - model.learning_rate * gradient
        return {"loss": loss}

    def _take_time(self, num_devices: int) -> None:
        """Let each device work for its time; the step returns at once, as on a GPU."""
        now = perf_counter_ns()
        begin = [max(now, end) for end in (*self.ends_ns, *[now] * num_devices)][:num_devices]
        self.ends_ns = tuple(start + round(self.plan.seconds_of(device) * 1e9) for device, start in enumerate(begin))


def _take(batches: Iterator[Any], stage: Stage[StagedBatch]) -> StagedBatch:
    """The next batch of any iterator, staged; a feed's batch is staged already."""
    if "abreast.feed" in sys.modules:
        from abreast.feed import take

        return take(batches, stage).staged
    put: Callable[[Any], StagedBatch] = stage.put
    return put(PlainBatch(next(batches)))


class FakeInstruments(Defaults):
    """See `instruments.py`."""

    def __init__(self, backend: FakeBackend) -> None:
        self._backend = backend
        self._tracer: FakeTracer | None = None

    def device_times(self, placement: Placement | None) -> DeviceTimes:
        names = self._backend.device_names()[:1] if placement is None else placement.devices
        return DeviceTimes(names, all_reduce=len(names) == 1)

    def mark(self, outputs: Any) -> FakeMark | None:
        ends = self._backend.ends_ns
        return FakeMark(ends) if any(end > perf_counter_ns() for end in ends) else None

    def finished(self, mark: FakeMark) -> tuple[int, ...]:
        time.sleep(max(0, max(mark.ends_ns) - perf_counter_ns()) / 1e9)
        return mark.ends_ns

    def trace(self, logdir: str) -> FakeTracer:
        if self._tracer is not None and self._tracer.is_running:
            raise BackendError("the fake profiler is already running", "stop it first")
        self._tracer = FakeTracer(Path(logdir) / "fake.trace")
        return self._tracer

    def random_state(self, model: FakeModel) -> list[Any]:
        return [generator.bit_generator.state for generator in self._backend.generators]

    def set_random_state(self, state: list[Any] | None, model: FakeModel) -> None:
        for generator, its in zip(self._backend.generators, state or (), strict=False):
            generator.bit_generator.state = its

    def keep_buffers(self, model: Any) -> None:
        return None

    def rest(self, model: Any) -> None:
        pass

    def build(self, model: Any, first_batch: Any) -> None:
        pass

    def view(self, variable: Any) -> np.ndarray:
        return np.asarray(variable)

    def read_buffers(self, model: Any) -> dict[str, Any]:
        return {}

    def write_buffers(self, model: Any, values: Any) -> None:
        pass

    def all_reduce_seconds(self, placement: Placement, size_bytes: int) -> float:
        return size_bytes / self._backend.plan.all_reduce_bytes_per_second if placement.num_devices > 1 else 0.0


class FakeTracer:
    """See `Tracer` in `instruments.py`. Its file holds a line per step."""

    def __init__(self, path: Path) -> None:
        self.is_running = True
        self._path = path
        self._steps: list[int] = []

    def begin_step(self, number: int) -> None:
        self._steps.append(number)

    def end_step(self) -> None:
        pass

    def stop(self) -> str:
        if self.is_running:
            self.is_running = False
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("".join(f"step {number}\n" for number in self._steps))
        return f"read {self._path.name}"
