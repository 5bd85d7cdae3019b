"""The figures of a comparison: speed-up and efficiency beside the ideal, and the parts of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from abreast.bench.series import Comparison, Point, Series
from abreast.page.charts import Bar, Describe
from abreast.page.figures import Curve, bars_figure, curves_figure
from abreast.page.markup import Markup
from abreast.page.palette import colour_classes
from abreast.timeline.step_parts import COMPUTE_WITH_ALL_REDUCE, LABELS
from abreast.units import count, counted, duration, share

_COLOURS = {"abreast": "c2", "keras": "c0", "native": "c4"}
_MORE_COLOURS = ("c3", "c1", "c6", "c5", "c7")


def figures(comparison: Comparison) -> Iterator[tuple[str, str, Markup]]:
    """The short name, the caption and the drawing of each figure that has numbers."""
    base = next((series.base for series in comparison.series if series.base is not None), None)
    if base is not None:
        yield "speed-up", _speed_up_words(comparison), _speed_up(comparison, base)
        words = "Throughput on n devices over n times that of the same side on one; 100% is ideal."
        yield "efficiency", words, _efficiency(comparison)
    bars = [bar for series in comparison.series for bar in _bars(series)]
    if bars:
        yield "step", _step_words(bars), _step(comparison, bars)


def colours(comparison: Comparison) -> dict[str, str]:
    """A colour class for each side. A prediction for a side has the same colour in another style."""
    sides = list(dict.fromkeys(series.side for series in comparison.series))
    others = iter(_MORE_COLOURS)
    return {side: _COLOURS.get(side) or next(others, "c7") for side in sides}


def _speed_up_words(comparison: Comparison) -> str:
    series = next(series for series in comparison.series if series.base is not None)
    ranges = {False: "the quartiles", True: "the interval of 80%"}
    shown = " or ".join(
        words for kind, words in ranges.items() if any(one.predicted is kind for one in comparison.series)
    )
    return f"Rows per second over the rows per second of {series.name} on one device, with {shown}; the dotted line is ideal."


def _step_words(bars: list[Bar]) -> str:
    if all(bar.predicted for bar in bars):
        return "The predicted step and its parts."
    return "The median step of abreast, in the shares that a timeline over one more turn found."


def _speed_up(comparison: Comparison, base: Point) -> Markup:
    one = base.rows_per_second
    curves = list(_curves(comparison, lambda series, point, rate: rate / one))
    return curves_figure("Speed-up", curves, "times one device", count, float)


def _efficiency(comparison: Comparison) -> Markup:
    def value(series: Series, point: Point, rate: float) -> float:
        assert series.base is not None
        return rate / series.base.rows_per_second / point.devices

    curves = list(_curves(comparison, value, only_with_base=True))
    ideal: Callable[[float], float] = lambda _: 1.0  # noqa: E731
    return curves_figure("Efficiency", curves, "of linear scaling", share, ideal, unit=0.01, scales_with_devices=False)


def _curves(
    comparison: Comparison, value: Callable[[Series, Point, float], float], only_with_base: bool = False
) -> Iterator[Curve]:
    named = colours(comparison)
    for series in comparison.series:
        if only_with_base and series.base is None:
            continue
        points = []
        for point in series.points:
            low, high = point.range_per_second
            rates = (point.rows_per_second, low, high)
            points.append((float(point.devices), *(value(series, point, rate) for rate in rates)))
        yield Curve(series.name, points, named[series.side], series.predicted)  # type: ignore[arg-type]


def _bars(series: Series) -> Iterator[Bar]:
    if series.side != "abreast":
        return
    for point in series.points:
        if point.parts:
            known = point.line is None or point.line.get("all_reduce_told", True)
            parts = {_label(name, known): seconds for name, seconds in point.parts.items()}
            predicted = ", predicted" if series.predicted else ""
            yield Bar(f"{counted(point.devices, 'device')}{predicted}", parts, predicted=series.predicted)


def _label(name: str, all_reduce_known: bool) -> str:
    return COMPUTE_WITH_ALL_REDUCE if name == "compute" and not all_reduce_known else LABELS.get(name, name)


def _step(comparison: Comparison, bars: list[Bar]) -> Markup:
    named = colour_classes(name for bar in bars for name in bar.parts)
    longest = max(bar.total for bar in bars)
    describe: Describe = partial(duration, like=longest)
    return bars_figure("Where a step goes", bars, named, describe)
