"""Figures as SVG of a fixed width: curves over the number of devices with an ideal line, and bars of a step's parts.

Predicted values never look like measured ones (`figures.css`). Not here: the figures of a comparison (`bench/plots.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from abreast.page.charts import Bar, Describe, ticks
from abreast.page.markup import Markup, joined, shortened, tag

WIDTH, HEIGHT = 480, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 14, 80, 46  # margins around the plot
_PAD = 16  # between the plot's left and right edges and its points
_LOGARITHMIC_FROM = 32  # devices
_LEAST_TICK_PIXELS = 26
_ROW, _BAR = 34, 20  # heights of a row and of the bar in it
_LEAST_BAR = 2  # pixels: a part that is narrower in every bar is not drawn, and not in the key
_KEY_ROW = 20
_LETTER_WIDTH = 6.6


@dataclass(frozen=True)
class Curve:
    """One curve: `points` are the number of devices, a value, and the low and the high end of the value's range."""

    name: str
    points: Sequence[tuple[float, float, float, float]]
    colour: str
    predicted: bool = False


@dataclass(frozen=True)
class Axes:
    """Converts numbers to pixels. An axis that doubles is logarithmic, in powers of two."""

    most_x: float
    most_y: float
    x_doubles: bool = False
    y_doubles: bool = False

    def x(self, devices: float) -> float:
        low, high = _along(1.0, self.x_doubles), _along(self.most_x, self.x_doubles)
        share = (_along(devices, self.x_doubles) - low) / (high - low) if high > low else 0.5
        return _LEFT + _PAD + share * (WIDTH - _LEFT - _RIGHT - 2 * _PAD)

    def y(self, value: float) -> float:
        share = _along(value, self.y_doubles) / max(_along(self.most_y, self.y_doubles), 1e-9)
        return HEIGHT - _BOTTOM - min(1.0, max(0.0, share)) * (HEIGHT - _TOP - _BOTTOM)


def _along(value: float, doubles: bool) -> float:
    return math.log2(max(value, 1.0)) if doubles else value


def curves_figure(
    title: str,
    curves: Sequence[Curve],
    y_label: str,
    describe: Describe,
    ideal: Callable[[float], float],
    *,
    unit: float = 1.0,
    scales_with_devices: bool = True,
) -> Markup:
    """Curves over the number of devices, with their ranges, and a line for `ideal`."""
    devices = sorted({point[0] for curve in curves for point in curve.points})
    most = max(devices, default=1.0)
    highest = [point[3] for curve in curves for point in curve.points if math.isfinite(point[3])]
    top = 1.04 * max([*highest, ideal(most), ideal(1.0)])
    many = most >= _LOGARITHMIC_FROM
    axes = Axes(most, top, x_doubles=many, y_doubles=many and scales_with_devices)
    drawn = [
        _grid(axes, devices, describe, unit),
        _ideal(axes, most, ideal),
        *(_curve(curve, axes, describe) for curve in sorted(curves, key=lambda curve: not curve.predicted)),
    ]
    key = [(curve.name, _sample(curve)) for curve in curves]
    key.append(("ideal", tag("g", tag("line", x1=0, x2=22, y1=0, y2=0), class_="ideal")))
    names = tag("g", tag("text", "devices", x=WIDTH - _RIGHT, y=HEIGHT - 8, text_anchor="end"), class_="soft")
    above = tag("g", tag("text", y_label, x=_LEFT - 8, y=_TOP - 9, text_anchor="start"), class_="soft")
    return _sheet(title, HEIGHT, key, 22, *drawn, names, above)


def bars_figure(title: str, bars: Sequence[Bar], colours: Mapping[str, str], describe: Describe) -> Markup:
    """Stacked bars below one another, on one scale."""
    longest = max((bar.total for bar in bars), default=0.0) or 1.0
    left = 24 + _LETTER_WIDTH * max((len(bar.name) for bar in bars), default=0)
    width = WIDTH - left - 70
    least = _LEAST_BAR * longest / width
    shown = {name: colour for name, colour in colours.items() if any(bar.parts.get(name, 0.0) >= least for bar in bars)}
    rows, top = [], _TOP + 4
    for number, bar in enumerate(bars):
        rows.append(_bar(bar, shown, describe, left, top + number * _ROW, width / longest))
    box = tag("rect", x=0, y=-6, width=12, height=12)
    key = [(name, tag("g", box, class_=f"measured {colour}")) for name, colour in shown.items()]
    return _sheet(title, top + _ROW * len(bars) + 8, key, 12, *rows)


def _bar(
    bar: Bar, colours: Mapping[str, str], describe: Describe, left: float, y: float, pixels_per_unit: float
) -> Markup:
    name = tag("text", bar.name, x=left - 10, y=y + _BAR / 2, dy=".35em", text_anchor="end")
    parts, x = [], left
    for part, colour in colours.items():
        width = bar.parts.get(part, 0.0) * pixels_per_unit
        if width <= 0:
            continue
        words = describe(bar.parts[part])
        box = tag("rect", tag("title", f"{part}: {words}"), x=x, y=y, width=width, height=_BAR)
        inside = tag("text", words, x=width / 2, y=_BAR / 2, dy=".35em", text_anchor="middle")
        label = tag("svg", inside, class_="label", x=x, y=y, width=width, height=_BAR)
        fits = len(words) * _LETTER_WIDTH + 6 < width and not bar.predicted
        parts.append(tag("g", box, label if fits else "", class_=colour))
        x += width
    total = tag("text", describe(bar.total), x=x + 8, y=y + _BAR / 2, dy=".35em")
    return tag("g", name, *parts, total, class_="predicted" if bar.predicted else "measured")


def _sheet(title: str, height: float, key: Sequence[tuple[str, Markup]], sample_width: float, *drawn: str) -> Markup:
    """A figure with its title and its key above the drawing. A key of several rows moves the drawing down."""
    legend, more = _legend(key, sample_width)
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=WIDTH, height=height + more, class_="sheet"),
        tag("text", shortened(title, 90), x=14, y=24, class_="title"),
        legend,
        tag("g", *drawn, transform=f"translate(0 {more:g})" if more else None),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height + more:g}",
        width=WIDTH,
        height=height + more,
        class_="figure",
        role="img",
        aria_label=title,
    )


def _legend(entries: Sequence[tuple[str, Markup]], sample_width: float) -> tuple[Markup, float]:
    """The key, and the height of its rows after the first."""
    drawn, x, y = [], 14.0, 44.0
    for name, sample in entries:
        width = sample_width + 22 + _LETTER_WIDTH * len(shortened(name, 40))
        if x + width > WIDTH and x > 14:
            x, y = 14.0, y + _KEY_ROW
        words = tag("text", shortened(name, 40), x=sample_width + 6, y=0, dy=".35em")
        drawn.append(tag("g", sample, words, transform=f"translate({x:g} {y:g})"))
        x += width
    return tag("g", *drawn, class_="key"), y - 44.0


def _sample(curve: Curve) -> Markup:
    line = tag("line", x1=0, x2=22, y1=0, y2=0)
    return tag("g", line, tag("circle", cx=11, cy=0, r=4), class_=_kind(curve))


def _grid(axes: Axes, devices: Sequence[float], describe: Describe, unit: float) -> Markup:
    rules, words = [], []
    levels = _powers(axes.most_y) if axes.y_doubles else ticks(0.0, axes.most_y, 5, unit)
    for level in levels:
        y = axes.y(level)
        rules.append(tag("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y))
        words.append(tag("text", describe(level), x=_LEFT - 8, y=y, dy=".35em", text_anchor="end"))
    last = -math.inf
    for count in devices:
        x = axes.x(count)
        if x - last >= _LEAST_TICK_PIXELS:
            words.append(tag("text", f"{count:g}", x=x, y=HEIGHT - _BOTTOM + 18, text_anchor="middle"))
            last = x
    return joined(tag("g", *rules, class_="rule"), tag("g", *words, class_="soft"))


def _powers(most: float) -> list[float]:
    powers = [2.0**power for power in range(math.floor(math.log2(max(most, 1.0))) + 1)]
    return powers[:: max(1, math.ceil(len(powers) / 6))]


def _ideal(axes: Axes, most: float, ideal: Callable[[float], float]) -> Markup:
    """The ideal as a line, which is straight on linear and on logarithmic axes."""
    (x1, x2), (y1, y2) = (axes.x(1.0), axes.x(most)), (axes.y(ideal(1.0)), axes.y(ideal(most)))
    if most <= 1:
        x1, x2 = x1 - 40, x2 + 40
    return tag("g", tag("line", x1=x1, y1=y1, x2=x2, y2=y2), class_="ideal")


def _curve(curve: Curve, axes: Axes, describe: Describe) -> Markup:
    points = [point for point in curve.points if all(map(math.isfinite, point))]
    places = [(axes.x(x), axes.y(y), axes.y(low), axes.y(high)) for x, y, low, high in points]
    path = "M" + " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in places)
    ranges = _band(places) if curve.predicted else joined(*(_whisker(*place) for place in places))
    marks = [
        tag("circle", tag("title", f"{curve.name}, {x:g}: {describe(y)}"), cx=place[0], cy=place[1], r=4)
        for (x, y, _, _), place in zip(points, places, strict=True)
    ]
    line = tag("path", d=path) if len(places) > 1 else ""
    return tag("g", ranges, line, *marks, class_=_kind(curve))


def _whisker(x: float, _: float, low: float, high: float) -> Markup:
    return tag("line", x1=x, x2=x, y1=low, y2=high, class_="spread")


def _band(places: Sequence[tuple[float, float, float, float]]) -> Markup:
    above = [(x, high) for x, _, _, high in places]
    below = [(x, low) for x, _, low, _ in reversed(places)]
    if len(places) < 2 or all(low == high for _, _, low, high in places):
        return joined()
    return tag("path", d="M" + " ".join(f"{x:.1f},{y:.1f}" for x, y in above + below) + "Z", class_="band")


def _kind(curve: Curve) -> str:
    return f"{'predicted' if curve.predicted else 'measured'} {curve.colour}"
