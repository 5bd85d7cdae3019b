"""Rows as text: one table, then lists of missing things, of parts that were not tried, and of failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.gpu.rows import Key, Row

HEADS = ("what", "backend", "devices", "result", "seconds", "figure", "figure on the CPU")
_WIDEST = 60


def report(rows: Sequence[Row], on_cpu: Mapping[Key, str]) -> str:
    """The table, and below it a line for every part that did not pass."""
    parts = [table(rows, on_cpu), *_lists(rows), summary(rows)]
    return "\n\n".join(part for part in parts if part)


def table(rows: Sequence[Row], on_cpu: Mapping[Key, str]) -> str:
    cells = [HEADS, *(_cells(row, on_cpu.get(row.key, "")) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADS))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)


def summary(rows: Sequence[Row]) -> str:
    counts = {
        status: sum(row.status == status for row in rows) for status in ("passed", "failed", "missing", "left out")
    }
    return ", ".join(f"{number} {status}" for status, number in counts.items())


def _cells(row: Row, on_cpu: str) -> tuple[str, ...]:
    figure = row.figure or row.why.splitlines()[0] if row.figure or row.why else ""
    devices = f"{row.devices} {row.kind}" if row.devices else ""
    seconds = f"{row.seconds:.0f}" if row.seconds else ""
    return row.part, row.backend, devices, row.status, seconds, _short(figure), _short(on_cpu)


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


def _lists(rows: Sequence[Row]) -> list[str]:
    missing = _by_reason([(row.why, row) for row in rows if row.status == "missing"])
    not_tried = _by_reason([(each, row) for row in rows for each in row.absent])
    left_out = _by_reason([(row.why, row) for row in rows if row.status == "left out"])
    failed = [f"{row.part} {row.backend} {row.devices} {row.kind}: {row.why}" for row in rows if row.status == "failed"]
    titled = (("missing", missing), ("not tried", not_tried), ("left out", left_out), ("failed", failed))
    return ["\n".join([f"{title}:", *(f"  {line}" for line in found)]) for title, found in titled if found]


def _by_reason(pairs: Sequence[tuple[str, Row]]) -> list[str]:
    """A line per reason, with its parts and backends."""
    found: dict[str, list[Row]] = {}
    for reason, row in pairs:
        found.setdefault(reason, []).append(row)
    return [f"{reason} ({_names(rows)})" for reason, rows in found.items()]


def _names(rows: Sequence[Row]) -> str:
    parts = ", ".join(dict.fromkeys(row.part for row in rows))
    backends = ", ".join(dict.fromkeys(row.backend for row in rows if row.backend))
    return f"{parts} on {backends}" if backends else parts
