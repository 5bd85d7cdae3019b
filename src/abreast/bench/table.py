"""Measurements as text: a row per side and number of devices, and the measurements that are too noisy."""

from __future__ import annotations

from collections.abc import Sequence

from abreast.bench.noise import HINT, TOO_NOISY
from abreast.bench.series import Comparison, Point, Series
from abreast.text_table import text_table
from abreast.units import count, duration, duration_range, share, times

HEADS = ("side", "devices", "rows/s", "speed-up", "efficiency", "step", "quartiles")


def report(found: Sequence[Comparison]) -> str:
    """Each comparison with its title and a table."""
    return "\n\n".join(map(_report, found))


def _report(comparison: Comparison) -> str:
    table = text_table([HEADS, *rows(comparison)], numbers=True)
    return "\n".join((comparison.title, comparison.devices, table, *_notes(comparison)))


def rows(comparison: Comparison) -> list[tuple[str, ...]]:
    return [_row(comparison, series, point) for series in comparison.series for point in series.points]


def _row(comparison: Comparison, series: Series, point: Point) -> tuple[str, ...]:
    speed_up, efficiency = comparison.speed_up(point), series.efficiency(point)
    return (
        series.name,
        str(point.devices),
        count(point.rows_per_second),
        "" if speed_up is None else _steady(times(speed_up), point, comparison.base),
        "" if efficiency is None else _steady(share(efficiency), point, series.base),
        duration(point.seconds),
        duration_range(point.low_seconds, point.high_seconds, point.seconds),
    )


def _steady(text: str, *compared: Point | None) -> str:
    """The text of a ratio, unless one of the compared measurements is too noisy."""
    return TOO_NOISY if any(point is not None and point.noise for point in compared) else text


def _notes(comparison: Comparison) -> list[str]:
    noisy = comparison.noisy
    return [
        *(f"{TOO_NOISY}: {name}: {reason}" for name, reason in noisy.items()),
        *([f"hint: {HINT}"] if noisy else []),
    ]
