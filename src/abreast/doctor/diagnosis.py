"""The doctor's result as data, independent of how it was measured; `report.py` and `page.py` present it."""

from __future__ import annotations

from dataclasses import dataclass, field

from abreast.samplers.sample import DeviceSample
from abreast.spans import Span


@dataclass(frozen=True)
class Finding:
    """One cause of lost time. `cause` is its short name, as `slow-source`; times are per step of the run as given."""

    cause: str
    what: str
    evidence: str
    advice: str
    lost_seconds: float
    rows_per_second_after: float | None = None  # once the advice is followed, all else unchanged; None: not known


@dataclass(frozen=True)
class Experiment:
    """One counter-experiment: some steps with one thing changed, and the time of a step then."""

    name: str
    what: str
    num_steps: int
    median_seconds: float
    spread_seconds: float  # between the quartiles


@dataclass(frozen=True)
class Diagnosis:
    """The result for one `fit`. `breakdown` splits the median step into seconds by name, in the order of display."""

    model: str
    backend: str
    devices: tuple[str, ...]
    batch_rows: int
    num_steps: int
    step_seconds: float
    breakdown: dict[str, float]
    findings: tuple[Finding, ...]
    experiments: tuple[Experiment, ...] = ()
    spans: tuple[Span, ...] = ()  # of a few steps
    samples: tuple[DeviceSample, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)  # versions, machine, sizes
    mean_rows: float = 0.0  # rows of a step on average; 0: `batch_rows`, the rows of the largest batch

    @property
    def rows_per_second(self) -> float:
        return self.rows_per_second_of(self.step_seconds)

    def rows_per_second_of(self, step_seconds: float) -> float:
        """Rows per second if a step took `step_seconds`."""
        return (self.mean_rows or self.batch_rows) / step_seconds
