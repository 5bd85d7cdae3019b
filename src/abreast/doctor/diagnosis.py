"""What the doctor found, as data: who writes it as text or as a page need not know how it was measured.

Imports `spans` and `Sample`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from abreast.samplers.sample import Sample
from abreast.spans import Span


@dataclass(frozen=True)
class Finding:
    """One cause of lost time. `cause` is its short name, as `slow-source`; times are of one step of the run as given."""

    cause: str
    what: str
    evidence: str
    advice: str
    lost_seconds: float
    rows_per_second_after: float | None = None  # with the advice followed and nothing else changed; None: not known


@dataclass(frozen=True)
class Experiment:
    """One counter-experiment: some steps with one thing changed, and how long a step then took."""

    name: str
    what: str
    num_steps: int
    median_seconds: float
    spread_seconds: float  # between the quartiles


@dataclass(frozen=True)
class Diagnosis:
    """`breakdown` splits the median step into seconds by name, in the order in which they are to be shown."""

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
    samples: tuple[Sample, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)  # versions, machine, sizes
    mean_rows: float = 0.0  # of a step; 0: `batch_rows`, which the largest batch has

    @property
    def rows_per_second(self) -> float:
        return self.rows_per_second_of(self.step_seconds)

    def rows_per_second_of(self, step_seconds: float) -> float:
        """If a step took so long."""
        return (self.mean_rows or self.batch_rows) / step_seconds
