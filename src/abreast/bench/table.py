"""Measurements as text: a row per side and number of devices."""

from __future__ import annotations

from collections.abc import Sequence

from abreast.bench.series import Comparison, Point, Series
from abreast.text_table import text_table
from abreast.units import count, duration, share, times

HEADS = ("side", "devices", "rows/s", "step", "quartiles", "speed-up", "efficiency")


def report(found: Sequence[Comparison]) -> str:
    """Each comparison with its title and a table."""
    return "\n\n".join(
        f"{each.title}\n{each.devices}\n{text_table([HEADS, *rows(each)], numbers=True)}" for each in found
    )


def rows(comparison: Comparison) -> list[tuple[str, ...]]:
    return [_row(series, point) for series in comparison.series for point in series.points]


def _row(series: Series, point: Point) -> tuple[str, ...]:
    speed_up, efficiency = series.speed_up(point), series.efficiency(point)
    spread = f"{duration(point.low_seconds, point.seconds)} to {duration(point.high_seconds, point.seconds)}"
    return (
        series.name,
        str(point.devices),
        count(point.rows_per_second),
        duration(point.seconds),
        spread,
        "" if speed_up is None else times(speed_up),
        "" if efficiency is None else share(efficiency),
    )
