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
    """One cause of lost time. Times are per step of the run as given.

    Attributes:
        cause: its short name, such as `"slow-source"`.
        what: one sentence about it.
        evidence: the measurements that show it.
        advice: what to change.
        lost_seconds: seconds of each step that it costs.
        rows_per_second_after: expected speed when the advice is followed and nothing else changes; None if not known.
    """

    cause: str
    what: str
    evidence: str
    advice: str
    lost_seconds: float
    rows_per_second_after: float | None = None  # after the advice is followed, nothing else changed; None: unknown


@dataclass(frozen=True)
class Experiment:
    """One counter-experiment: some steps with one thing changed.

    Attributes:
        name: its short name.
        what: what was changed.
        num_steps: number of steps that were measured.
        median_seconds: the median time of a step.
        spread_seconds: the difference between the quartiles.
    """

    name: str
    what: str
    num_steps: int
    median_seconds: float
    spread_seconds: float  # between the quartiles


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose` for one `fit`. It prints as text, and is a table in a notebook.

    Attributes:
        model: the model's name.
        backend: the framework, such as `"jax"`.
        devices: the names of the devices.
        batch_rows: number of rows of the largest batch.
        num_steps: number of steps that were measured as given.
        step_seconds: the median time of these.
        breakdown: seconds of the median step by name, in the order of display.
        findings: the causes of lost time, the most expensive first.
        experiments: the steps with one thing changed.
        spans: the named intervals of time in a few steps.
        samples: utilisation and memory of the devices during these.
        facts: versions, machine, sizes, and trials that failed.
        mean_rows: number of rows of a step on average; 0 if all batches have `batch_rows`.

    Example:
        >>> from abreast.doctor.diagnosis import Diagnosis, Experiment, Finding
        >>> slow = Finding("slow-source", "The devices wait for data", "median 30 ms", "Use more threads.", 0.03, 1600.0)
        >>> again = Experiment("same batch", "one batch is used again and again", 30, 0.01, 0.001)
        >>> diagnosis = Diagnosis("net", "jax", ("cpu:0",), 16, 30, 0.04, {"computing": 0.01}, (slow,), (again,))
        >>> diagnosis.rows_per_second
        400.0
        >>> diagnosis.rows_per_second_of(0.01)
        1600.0
        >>> diagnosis  # `abreast.diagnose` returns one
        <Diagnosis of net: 40.0 ms a step, slow-source>
    """

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
        """Rows per second of the run as given."""
        return self.rows_per_second_of(self.step_seconds)

    def rows_per_second_of(self, step_seconds: float) -> float:
        """Rows per second if a step took another time.

        Args:
            step_seconds: that time, in seconds.
        """
        return (self.mean_rows or self.batch_rows) / step_seconds
