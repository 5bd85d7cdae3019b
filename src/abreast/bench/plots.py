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
_PLACES = {label: place for place, label in enumerate(LABELS.values())}  # parts in the order of a timeline
_PLACES[COMPUTE_WITH_ALL_REDUCE] = _PLACES[LABELS["compute"]]
_MORE_COLOURS = ("c3", "c1", "c6", "c5", "c7")


def figures(comparison: Comparison) -> Iterator[tuple[str, str, Markup]]:
    """The short name, the caption and the drawing of each figure that has numbers. Points that are too noisy are left out."""
    base = comparison.base_series
    if base is not None:
        faster = list(_curves(comparison, lambda series: base))
        if faster:
            drawing = curves_figure("Speed-up", faster, "times one device", _number, float)
            yield "speed-up", _speed_up_words(base.name, faster), drawing
        shares = list(_curves(comparison, lambda series: series, per_device=True))
        if shares:
            words = "Rows per second on n devices over n times those of the same side on one; 100% is ideal."
            yield "efficiency", words, _efficiency(shares)
    bars = _bars(comparison)
    if bars:
        yield "step", _step_words(comparison, bars), _step(bars)


def colours(comparison: Comparison) -> dict[str, str]:
    """A colour class for each side. A prediction for a side has the same colour in another style."""
    sides = list(dict.fromkeys(series.side for series in comparison.series))
    others = iter(_MORE_COLOURS)
    return {side: _COLOURS.get(side) or next(others, "c7") for side in sides}


def _speed_up_words(base: str, curves: list[Curve]) -> str:
    ranges = {False: "the quartiles", True: "the interval of 80%"}
    shown = " or ".join(words for kind, words in ranges.items() if any(one.predicted is kind for one in curves))
    return f"Rows per second over those of {base} on one device, with {shown}; the dotted line is ideal."


def _number(value: float) -> str:
    return count(value) if value >= 100 else f"{value:.3g}"


def _step_words(comparison: Comparison, bars: list[Bar]) -> str:
    if all(bar.predicted for bar in bars):
        return "The predicted step and its parts."
    words = "The median step of abreast, in the shares that a timeline over one more turn found."
    held = any(_holds_all_reduce(point) for series in comparison.series for point in series.points)
    if held and any(LABELS["compute"] in bar.parts for bar in bars):
        words += " Measured computing includes the all-reduce, which this backend does not separate."
    return words


def _efficiency(curves: list[Curve]) -> Markup:
    ideal: Callable[[float], float] = lambda _: 1.0  # noqa: E731
    return curves_figure("Efficiency", curves, "of linear scaling", share, ideal, unit=0.01, scales_with_devices=False)


def _curves(comparison: Comparison, base_of: Callable[[Series], Series], per_device: bool = False) -> Iterator[Curve]:
    """The rates of each series over the rate of a base. Left out if the base is noisy: its noise would be in all rates."""
    named = colours(comparison)
    for series in comparison.series:
        base = base_of(series).base
        if base is None or base.noise:
            continue
        points = []
        for point in series.points:
            over = base.rows_per_second * (point.devices if per_device else 1)
            low, high = point.range_per_second
            if not point.noise:
                points.append((float(point.devices), point.rows_per_second / over, low / over, high / over))
        if points:
            yield Curve(series.name, points, named[series.side], series.predicted)


def _bars(comparison: Comparison) -> list[Bar]:
    points = [
        (series, point)
        for series in comparison.series
        for point in series.points
        if series.side == "abreast" and point.parts
    ]
    labels = LABELS | {"compute": _compute_label([point for _, point in points])}
    found = []
    for series, point in points:
        kind = ", predicted" if series.predicted else ", too noisy" if point.noise else ""
        parts = {labels.get(name, name): seconds for name, seconds in (point.parts or {}).items()}
        found.append(Bar(f"{counted(point.devices, 'device')}{kind}", parts, predicted=series.predicted))
    return found


def _compute_label(points: list[Point]) -> str:
    """One name for computing in all bars, so that the key has its colour once."""
    apart = any((point.parts or {}).get("all_reduce") for point in points)
    return COMPUTE_WITH_ALL_REDUCE if any(map(_holds_all_reduce, points)) and not apart else LABELS["compute"]


def _holds_all_reduce(point: Point) -> bool:
    """Whether the computing of a measured step includes the all-reduce, which its backend does not separate."""
    return point.line is not None and not point.line.get("all_reduce_told", True)


def _step(bars: list[Bar]) -> Markup:
    names = dict.fromkeys(name for bar in bars for name in bar.parts)
    named = colour_classes(sorted(names, key=lambda name: _PLACES.get(name, len(_PLACES))))
    longest = max(bar.total for bar in bars)
    describe: Describe = partial(duration, like=longest)
    return bars_figure("Where a step goes", bars, named, describe)
