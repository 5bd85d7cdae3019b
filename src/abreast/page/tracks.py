"""Spans of time on tracks, as inline SVG: a track per thread and per device.

A script widens the plot to zoom in; a plot that is wider than its frame scrolls. Spans that overlap on one track are drawn
below one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from abreast.page.charts import Describe, fitted_label, percent, ticks
from abreast.page.markup import Markup, joined, shortened, tag
from abreast.spans import Span

_MOST_LANES = 8  # spans that would need more lanes are drawn over the last one
_SHORTEST_NS = 1000  # least length of the axis
_GAP = 7  # pixels between tracks
_AXIS = 24  # height in pixels of the axis above the tracks
_NARROWEST = 0.0015  # a span shorter than this share of the axis is one pixel wide
_LABELLED = 0.004  # a span shorter than this share of the axis never has a label, at any zoom


@dataclass(frozen=True)
class _Track:
    name: str
    top: int
    lanes: Sequence[Sequence[Span]]
    lane: int  # height of a lane in pixels

    @property
    def height(self) -> int:
        return len(self.lanes) * self.lane + _GAP


def track_chart(
    spans: Sequence[Span],
    names: Sequence[str],
    colours: Mapping[str, str],
    label: str,
    describe: Describe,
    describe_span: Callable[[Span], str],
) -> Markup:
    """The spans of the tracks `names`, in that order. `describe` is the text of a time on the axis."""
    tracks = _tracks(spans, names)
    start = min(span.start_ns for span in spans)
    length = max(max(span.end_ns for span in spans) - start, _SHORTEST_NS)
    height = tracks[-1].top + tracks[-1].height
    drawn = [_drawn(track, start, length, colours, describe_span) for track in tracks]
    plot = tag(
        "svg", _axis(length, height, describe), *drawn, width="100%", height=height, role="img", aria_label=label
    )
    rows = [
        tag(
            "div",
            tag("span", shortened(track.name, 60)),
            title=shortened(track.name, 200),
            style=f"height:{track.height}px",
        )
        for track in tracks
    ]
    frame = tag("div", plot, class_="frame", tabindex=0, role="region", aria_label=f"{label}, scrolls when zoomed")
    return tag("div", tag("div", *rows, class_="names", style=f"padding-top:{_AXIS}px"), frame, class_="tracks")


def track_order(spans: Sequence[Span], first: Sequence[str]) -> list[str]:
    """The tracks that have spans: first the tracks in `first`, then the others in the order of their first span."""
    there = list(dict.fromkeys(span.track for span in sorted(spans, key=lambda span: span.start_ns)))
    return [name for name in first if name in there] + [name for name in there if name not in first]


def lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """Spans in lanes, so that spans of one lane do not overlap. A span inside another one is in a lane below it."""
    found: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: (span.start_ns, -span.end_ns)):
        lane = next((lane for lane in found if lane[-1].end_ns <= span.start_ns), None)
        if lane is not None:
            lane.append(span)
        elif len(found) < _MOST_LANES:
            found.append([span])
        else:
            found[-1].append(span)
    return found


def _tracks(spans: Sequence[Span], names: Sequence[str]) -> list[_Track]:
    lane = 20 if len(names) <= 12 else 13
    tracks: list[_Track] = []
    top = _AXIS
    for name in names:
        tracks.append(_Track(name, top, lanes([span for span in spans if span.track == name]), lane))
        top += tracks[-1].height
    return tracks


def _drawn(
    track: _Track, start: int, length: int, colours: Mapping[str, str], describe: Callable[[Span], str]
) -> Markup:
    line = tag("line", x1="0", x2="100%", y1=track.top - 3.5, y2=track.top - 3.5, class_="between")
    boxes = [
        _box(
            span,
            (span.start_ns - start) / length,
            track.top + number * track.lane,
            track.lane,
            length,
            colours,
            describe,
        )
        for number, lane in enumerate(track.lanes)
        for span in lane
    ]
    return joined(line, *boxes)


def _box(
    span: Span, x: float, y: int, lane: int, length: int, colours: Mapping[str, str], describe: Callable[[Span], str]
) -> Markup:
    width = max(0, span.end_ns - span.start_ns) / length
    height = lane - 2
    shown = percent(width) if width >= _NARROWEST else 1
    box = tag("rect", x=percent(min(x, 0.999)), y=y, width=shown, height=height)
    name = fitted_label(span.name, x, width, y, height) if width >= _LABELLED and lane > 16 else joined()
    return tag("g", tag("title", describe(span)), box, name, class_=f"span {colours[span.name]}")


def _axis(length_ns: int, height: int, describe: Describe) -> Markup:
    """Lines at round times. The fine lines between them get labels when a reader zooms in."""
    coarse = ticks(0.0, length_ns / 1e9, 8)
    fine = [time for time in ticks(0.0, length_ns / 1e9, 40) if all(abs(time - other) > 1e-12 for other in coarse)]
    return joined(
        *(_tick(time * 1e9 / length_ns, describe(time), height, "grid fine") for time in fine),
        *(_tick(time * 1e9 / length_ns, describe(time), height, "grid") for time in coarse),
    )


def _tick(place: float, words: str, height: int, kind: str) -> Markup:
    anchor = "start" if place < 0.02 else "end" if place > 0.97 else "middle"
    x = percent(place)
    line = tag("line", x1=x, x2=x, y1=_AXIS - 6, y2=height)
    return tag("g", line, tag("text", words, x=x, y=12, text_anchor=anchor), class_=kind)
