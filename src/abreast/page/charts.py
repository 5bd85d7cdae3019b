"""Charts as inline SVG: stacked bars, and lines over time. `tracks.py` draws spans on tracks.

Positions are percentages and heights are pixels, so that a chart fits any width while its text keeps its size. Colours are
the classes of `palette.py`. Predicted bars have the class `predicted`, and never look like measured ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from abreast.page.markup import Markup, escaped, joined, shortened, tag

Describe = Callable[[float], str]

_LETTER_WIDTH = 7.0  # estimated pixels of a letter, and of a whole chart, where no script measures them
_CHART_WIDTH = 760.0
_GUTTER = 56  # pixels to the left of lines, for the labels of their scale


@dataclass(frozen=True)
class Bar:
    """One stacked bar: `parts` by name, from left to right. `spread` is the length of a whisker around the bar's end."""

    name: str
    parts: Mapping[str, float]
    spread: float = 0.0
    predicted: bool = False

    @property
    def total(self) -> float:
        return sum(map(_length, self.parts.values()))


@dataclass(frozen=True)
class Line:
    """One line of a chart: `points` are pairs of x and y, sorted by x."""

    name: str
    points: Sequence[tuple[float, float]]


def legend(colours: Mapping[str, str]) -> Markup:
    """A list of the names with their colours."""
    entries = [tag("li", swatch(colour), shortened(name, 60)) for name, colour in colours.items()]
    return tag("ul", *entries, class_="legend")


def swatch(colour: str) -> Markup:
    return tag("span", class_=f"swatch {colour}")


def stacked_bar(
    bar: Bar, colours: Mapping[str, str], describe: Describe, *, full: float | None = None, height: int = 16
) -> Markup:
    """One bar. The right edge of the chart stands for `full`, by default the sum of the bar's parts."""
    full = full or bar.total or 1.0
    drawn, start = [], 0.0
    for name, value in bar.parts.items():
        length = _length(value) / full
        if length > 0:
            drawn.append(_part(name, describe(value), colours[name], start, length, height))
        start += length
    words = ", ".join(f"{name} {describe(value)}" for name, value in bar.parts.items())
    label = f"{bar.name}: {words}" if bar.name else words
    kind = "bar predicted" if bar.predicted else "bar"
    whisker = _whisker(start, bar.spread / full, height)
    return tag("svg", *drawn, whisker, class_=kind, width="100%", height=height, role="img", aria_label=label)


def fitted_label(text: str, x: float, width: float, y: float, height: float) -> Markup:
    """A name inside a box; hidden if it does not fit. `x` and `width` are shares of the chart's width."""
    text = shortened(text, 40)
    tight = len(text) * _LETTER_WIDTH + 10 > width * _CHART_WIDTH
    words = tag("text", text, x=5, y=height / 2, dy=".35em")
    kind = "label tight" if tight else "label"
    return tag("svg", words, class_=kind, x=percent(x), y=y, width=percent(width), height=height)


def line_chart(
    lines: Sequence[Line],
    colours: Mapping[str, str],
    label: str,
    describe_x: Describe,
    describe_y: Describe,
    *,
    top: float | None = None,
    unit: float = 1.0,
    height: int = 150,
) -> Markup:
    """Lines over time. The y axis goes from 0 to `top`, by default the highest point; its ticks are round numbers of `unit`."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points if math.isfinite(y)]
    low, high = min(xs, default=0.0), max(xs, default=1.0)
    span = (high - low) or 1.0
    top = top or 1.05 * max(ys, default=0.0) or 1.0
    paths = [_path(line, colours[line.name], low, span, top) for line in lines]
    plot = tag("svg", *paths, viewBox="0 0 1000 1000", preserveAspectRatio="none", width="100%", height=height)
    levels = [(round((1 - y / top) * height) + 0.5, describe_y(y)) for y in ticks(0.0, top, 4, unit)]
    across = [tag("line", x1="0", x2="100%", y1=y, y2=y) for y, _ in levels]
    along = [_column((x - low) / span, describe_x(x - low), height) for x in ticks(low, high, 5, origin=low)]
    names = [tag("text", words, x=_GUTTER - 8, y=y, dy=".35em", text_anchor="end") for y, words in levels]
    grid = tag("g", *across, *along, class_="grid")
    drawing = tag("svg", grid, plot, class_="plot", height=height + 22, role="img", aria_label=label)
    scale = tag(
        "svg", tag("g", *names, class_="grid"), class_="ticks", width=_GUTTER, height=height + 22, aria_hidden="true"
    )
    return tag("div", scale, drawing, class_="lines")


def ticks(low: float, high: float, most: int, unit: float = 1.0, origin: float = 0.0) -> list[float]:
    """At most `most + 1` round numbers from `low` to `high`, spaced by 1, 2 or 5 times a power of ten units."""
    length = (high - low) / unit
    if not (math.isfinite(length) and length > 0):
        return [low]
    rough = length / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = unit * next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil((low - origin) / step - 1e-9), math.floor((high - origin) / step + 1e-9)
    return [origin + number * step for number in range(first, last + 1)]


def thinned(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most about `most` points, with the peaks: the lowest and the highest point of each section."""
    if len(points) <= most:
        return list(points)
    size = math.ceil(2 * len(points) / most)
    return [point for start in range(0, len(points), size) for point in _extremes(points[start : start + size])]


def percent(part: float) -> str:
    return f"{100 * part:.4g}%"


def _extremes(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    lowest, highest = min(points, key=lambda point: point[1]), max(points, key=lambda point: point[1])
    yield from sorted({lowest, highest})


def _length(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0


def _part(name: str, value: str, colour: str, start: float, length: float, height: int) -> Markup:
    title = tag("title", f"{shortened(name, 200)}: {value}")
    width = percent(length) if length > 0.002 else 2  # its border covers one pixel
    box = tag("rect", x=percent(start), width=width, height=height)
    inside = fitted_label(f"{name} {value}", start, length, 0, height) if height > 20 and length > 0.03 else escaped("")
    return tag("g", title, box, inside, class_=colour)


def _whisker(end: float, spread: float, height: int) -> Markup:
    if not (math.isfinite(spread) and spread > 0):
        return joined()
    low, high, middle = max(0.0, end - spread / 2), min(1.0, end + spread / 2), height / 2
    along = tag("line", x1=percent(low), x2=percent(high), y1=middle, y2=middle)
    ends = [tag("line", x1=percent(x), x2=percent(x), y1=middle - 3, y2=middle + 3) for x in (low, high)]
    return tag("g", along, *ends, class_="whisker")


def _path(line: Line, colour: str, low: float, span: float, top: float) -> Markup:
    places = [
        f"{1000 * (x - low) / span:.5g},{1000 - 1000 * min(y / top, 1.0):.5g}"
        for x, y in line.points
        if math.isfinite(x) and math.isfinite(y)
    ]
    if len(places) == 1:
        places *= 2  # a single point: the line's round caps make it a dot
    shape = tag("path", d="M" + " ".join(places), vector_effect="non-scaling-stroke") if places else joined()
    return tag("g", tag("title", shortened(line.name, 200)), shape, class_=colour)


def _column(place: float, words: str, height: int) -> Markup:
    anchor = "start" if place < 0.05 else "end" if place > 0.95 else "middle"
    return tag("text", words, x=percent(place), y=height + 16, text_anchor=anchor)
