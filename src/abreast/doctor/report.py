"""A diagnosis as text for a terminal: a summary of the run, then each finding with its evidence and its `hint:`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abreast.doctor.diagnosis import Diagnosis, Finding


def report(diagnosis: Diagnosis) -> str:
    """The text to print, without colour."""
    lines = ["\n".join(summary(diagnosis))]
    lines += [_finding(finding, diagnosis.rows_per_second) for finding in diagnosis.findings]
    if not diagnosis.findings:
        lines.append("nothing found: no experiment saves a tenth of a step")
    return "\n\n".join(lines)


def summary(diagnosis: Diagnosis) -> tuple[str, str]:
    """One line about the run, and one about the parts of a step."""
    devices = diagnosis.devices
    where = devices[0] if len(devices) == 1 else f"{len(devices)} devices ({devices[0]} to {devices[-1]})"
    parts = ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in diagnosis.breakdown.items())
    return (
        f"{diagnosis.model} on {where}, {diagnosis.backend}: {1000 * diagnosis.step_seconds:.1f} ms a step of "
        f"{diagnosis.batch_rows} rows, {diagnosis.rows_per_second:,.0f} rows/s (median, {diagnosis.num_steps} steps)",
        f"a step: {parts}",
    )


def _finding(finding: Finding, rows_per_second: float) -> str:
    brings = ""
    if (after := finding.rows_per_second_after) is not None:
        brings = f" (then about {after:,.0f} rows/s, {after / rows_per_second:.1f} times as many)"
    return f"{finding.cause}: {finding.what} ({finding.evidence})\nhint: {finding.advice}{brings}"
