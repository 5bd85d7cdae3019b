"""The measurements of one `fit` as plain numbers: the input of the rules in `rules.py`.

Nothing here measures. Imports nothing of abreast, so that a test can try a rule on invented facts.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

# Names of experiments.
GIVEN = "as given"
SAME_BATCH = "same batch"
SOURCE = "source alone"
COMPILED = "compiled step"
DOUBLE_BATCH = "double batch"
EVEN_BATCH = "even batch"
MANY_STEPS = "many steps per call"
MORE_WORKERS = "more workers"
NO_CALLBACKS = "no callbacks"
ONE_DEVICE = "one device"
PRECISION = "bfloat16"
UINT8 = "uint8"

STEPS_PER_EXECUTION = 16  # in the experiment with many steps per call


@dataclass(frozen=True)
class Measure:
    """Seconds per step of one experiment, one sample per turn, and the samples of the experiment it is compared with.

    `base` names that other experiment, which differs in one thing. `base_samples` are its turns, in the same order, so
    that a drift of the machine affects both. A step has `rows` rows here, and `base_rows` rows in the base.
    """

    name: str
    what: str
    rows: int
    samples: tuple[float, ...]
    base: str = GIVEN
    base_rows: float = 0
    base_samples: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        low, high = quartiles(self.samples)
        return high - low

    @property
    def seconds_per_row(self) -> float:
        return self.seconds / self.rows

    @property
    def share(self) -> float:
        """Time per row, divided by the base's time per row: the median over the turns. 0.5 is twice as fast."""
        return statistics.median(self._shares())

    @property
    def sure(self) -> bool:
        """True if this is faster than its base in three turns of four."""
        return quartiles(self._shares())[1] < 1

    def _shares(self) -> list[float]:
        base_rows = self.base_rows or self.rows
        pairs = zip(self.samples, self.base_samples, strict=True)
        return [(mine / self.rows) / (base / base_rows) for mine, base in pairs]


@dataclass(frozen=True)
class Reading:
    """The speed of the source when nothing else runs.

    `busy_cores`: processor time of all threads, divided by elapsed time. `active_threads`: the mean number of the source's
    threads that were working on a batch. `decoding`: the share of these threads' samples in which they were decoding.
    `place`: the line where most samples found them, in the user's code if `place_is_own`.
    """

    num_batches: int
    seconds: float  # per batch
    busy_cores: float = 0.0
    active_threads: float = 1.0
    decoding: float = 0.0
    place: str = ""
    place_is_own: bool = False
    kind: str = ""  # as in `FitCall.kind`
    workers: int | None = None  # None: the source has no workers to set
    setting: str = ""  # the argument that sets the workers, such as `PyDataset(workers=...)`
    in_processes: bool = False  # true if other processes read; these are not sampled

    @property
    def waiting(self) -> float:
        """Share of the time that a thread works on a batch without using a processor."""
        return max(0.0, 1.0 - self.busy_cores / max(self.active_threads, 1e-9))


@dataclass(frozen=True)
class Callbacks:
    """Seconds per step and per epoch of each of the user's callbacks, by class name, and whether a progress bar is shown."""

    per_step: dict[str, float] = field(default_factory=dict)
    per_epoch: dict[str, float] = field(default_factory=dict)
    progress_bar: bool = False

    @property
    def slowest(self) -> str | None:
        return max(self.per_step, key=self.per_step.__getitem__) if self.per_step else None


@dataclass(frozen=True)
class Validation:
    """A validation as given: `seconds` for its `steps` steps, estimated from `num_steps` measured steps.

    It runs once in `every` epochs.
    """

    seconds: float
    steps: int
    num_steps: int
    every: int = 1


@dataclass(frozen=True)
class Facts:
    """One `fit`: its devices and settings, and every measure by the name of its experiment."""

    devices: tuple[str, ...]
    batch_rows: int
    measures: dict[str, Measure]
    backend: str = ""
    cores: int = 1
    reading: Reading | None = None
    callbacks: Callbacks = Callbacks()
    steps_per_epoch: int | None = None
    # From the last step of an epoch to the first of the next, without validation; 0: not measured.
    epoch_seconds: float = 0.0
    rows: float = 0.0  # rows of a step on average; 0: as many as the largest batch has
    validation: Validation | None = None
    shapes: Sequence[tuple[str, ...]] = ()  # shapes of the batches read, in order
    batch_bytes: int = 0
    as_uint8_bytes: int = 0  # bytes of the same batch with its whole numbers as uint8; 0: it has no whole numbers
    scaled: bool = False  # true if these are whole numbers divided by 255
    put_seconds: float = 0.0  # to begin the copies of a batch, in the stager's thread
    gradient_bytes: int = 0
    all_reduce_seconds: float = 0.0
    added_devices: tuple[float, ...] = ()  # seconds of a step on 1, 2, ... devices with the same rows on each
    idle_cores: float = 0.0  # idle cores on average while one batch is trained on again and again
    run_eagerly: bool = False
    jit_compile: bool = True
    steps_per_execution: int = 1
    has_tensor_cores: bool = False
    reduced_precision: bool = False  # true if some layer computes in bfloat16 or float16
    learning_rate: float | None = None
    learning_rate_is_default: bool = False
    optimizer: str = ""
    batch_norm: str = "global"
    has_batch_norm: bool = False

    @property
    def num_devices(self) -> int:
        return len(self.devices)

    @property
    def simulated(self) -> bool:
        """True if the devices are simulated on the CPU: then they share its cores."""
        return all(name.startswith("cpu") for name in self.devices)

    @property
    def given(self) -> Measure:
        return self.measures[GIVEN]

    @property
    def epoch_share(self) -> float:
        """Seconds of validation and between epochs, divided by the steps of an epoch."""
        if not self.steps_per_epoch:
            return 0.0
        return (self.validation_seconds + self.between_epochs_seconds) / self.steps_per_epoch

    @property
    def validation_seconds(self) -> float:
        """Seconds of validation per epoch."""
        return 0.0 if self.validation is None else self.validation.seconds / self.validation.every

    @property
    def epoch_end_seconds(self) -> float:
        """Seconds of callbacks at the end of an epoch, per epoch."""
        return sum(self.callbacks.per_epoch.values())

    @property
    def between_epochs_seconds(self) -> float:
        """Seconds per epoch without validation: callbacks, and the restart of the source."""
        return max(self.epoch_end_seconds, self.epoch_seconds)

    @property
    def mean_rows(self) -> float:
        return self.rows or self.batch_rows

    @property
    def step_seconds(self) -> float:
        """Seconds of a step as given, with its share of the time that is spent once per epoch."""
        return self.given.seconds + self.epoch_share


def quartiles(samples: Sequence[float]) -> tuple[float, float]:
    if len(samples) < 2:
        return samples[0], samples[0]
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, high
