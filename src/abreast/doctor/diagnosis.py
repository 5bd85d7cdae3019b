"""The doctor's result as data, independent of how it was measured; `report.py` and `page.py` present it."""

from __future__ import annotations

from dataclasses import dataclass, field

from abreast import notebook
from abreast.doctor.report import report, summary
from abreast.samplers.sample import DeviceSample
from abreast.spans import Span
from abreast.units import duration


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

    def __str__(self) -> str:
        return report(self)

    def __repr__(self) -> str:
        causes = ", ".join(finding.cause for finding in self.findings) or "nothing found"
        return f"<Diagnosis of {self.model}: {duration(self.step_seconds)} a step, {causes}>"

    def _repr_html_(self) -> str:
        run, parts = summary(self)
        rows = [
            (each.cause, duration(each.lost_seconds), each.what, each.evidence, each.advice) for each in self.findings
        ]
        heads = ("cause", "lost in a step", "what", "evidence", "hint")
        return notebook.shown("Diagnosis", {"run": run, "parts": parts}, heads, rows)

    @property
    def rows_per_second(self) -> float:
        return self.rows_per_second_of(self.step_seconds)

    def rows_per_second_of(self, step_seconds: float) -> float:
        """Rows per second if a step took `step_seconds`."""
        return (self.mean_rows or self.batch_rows) / step_seconds
