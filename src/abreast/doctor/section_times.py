"""The sections of the doctor's page that show times: the spans of a few steps, and the samples of the devices.

The number of drawn spans, tracks and points is bounded; the page states what it leaves out.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from abreast.doctor.diagnosis import Diagnosis
from abreast.page.charts import Line, legend, line_chart, thinned
from abreast.page.markup import Markup, joined, shortened, tag
from abreast.page.palette import colour_classes
from abreast.page.sections import MOST_ROWS, section, table, wide
from abreast.page.tracks import track_chart, track_order
from abreast.samplers.sample import DeviceSample
from abreast.spans import MAIN, READER, STAGER, Span
from abreast.timeline.step_spans import CALLBACKS, STEPS
from abreast.units import UNKNOWN, byte_count, byte_unit, count, duration, share

MOST_SPANS = 1200
MOST_TRACKS = 80
_MOST_POINTS = 16_000  # in all lines of a chart together
_LINE_COLOURS = (2, 0, 4, 3, 5, 1, 6, 7)  # if there are more lines, all share one colour


def timeline(diagnosis: Diagnosis) -> Markup:
    """The spans of a few steps, on a track for each thread and each device."""
    spans, names, left_out = _drawable(diagnosis)
    if not spans:
        return section("Timeline", "", tag("p", "No spans were recorded.", class_="none"))
    start = min(span.start_ns for span in spans)
    colours = colour_classes(span.name for span in spans)
    chart = track_chart(
        spans,
        names,
        colours,
        "Timeline of a few steps",
        lambda time: f"{1e3 * time:.5g} ms",
        lambda span: _description(span, start),
    )
    about = "What each thread and each device did in a few steps. " + left_out
    return section(
        "Timeline",
        about.strip(),
        tag("figure", _controls(), chart, legend(_key(colours)), class_="timeline"),
        _totals(spans, names),
    )


def devices(diagnosis: Diagnosis) -> Markup:
    """Utilisation and memory over time."""
    by_device: dict[str, list[DeviceSample]] = defaultdict(list)
    for sample in sorted(diagnosis.samples, key=lambda sample: sample.time_ns):
        by_device[sample.device].append(sample)
    if not by_device:
        nothing = "Utilisation and memory of the devices were not sampled in this run."
        return section("Devices", "", tag("p", nothing, class_="none"))
    names = list(by_device)[:MOST_ROWS]
    start = min(samples[0].time_ns for samples in by_device.values())
    busy = [
        _line(name, [(one.time_ns, one.utilisation) for one in by_device[name]], start, len(names)) for name in names
    ]
    held = [
        _line(name, [(one.time_ns, one.memory_bytes) for one in by_device[name]], start, len(names)) for name in names
    ]
    few = len(names) <= len(_LINE_COLOURS)
    colours = (
        {name: f"c{number}" for name, number in zip(names, _LINE_COLOURS, strict=False)}
        if few
        else dict.fromkeys(names, "many")
    )
    unit, unit_name = byte_unit(max(sample.memory_bytes for samples in by_device.values() for sample in samples))
    charts = [
        tag(
            "figure",
            tag("figcaption", "utilisation"),
            _lines(busy, colours, "Utilisation of the devices", share, 1.0, 1.0),
        ),
        tag(
            "figure",
            tag("figcaption", "memory in use"),
            _lines(held, colours, "Memory in use", lambda size: f"{size / unit:.5g} {unit_name}", None, unit),
        ),
    ]
    about = (
        "Sampled while the steps ran."
        if few
        else f"Sampled while the steps ran: one line for each of {len(names)} devices."
    )
    key = legend(colours) if few and len(names) > 1 else joined()
    numbers = table("Samples of each device", _HEADS, [_sampled(name, by_device[name]) for name in names])
    detail = tag("details", tag("summary", "Numbers of each device"), wide(numbers))
    return section("Devices", about, tag("div", *charts, class_="pair"), key, detail)


_KIND = "kind"  # a number of a step function, which says nothing to a reader
_HEADS = ("device", "samples", "median utilisation", "most memory", "median clock")


def _drawable(diagnosis: Diagnosis) -> tuple[list[Span], list[str], str]:
    """The spans to draw, their tracks in order, and a text about the spans that are left out."""
    spans = [span for span in diagnosis.spans if span.end_ns >= span.start_ns]
    names = track_order(spans, [STEPS, MAIN, READER, STAGER, *diagnosis.devices, CALLBACKS])
    words = []
    if len(names) > MOST_TRACKS:
        words.append(f"The first {MOST_TRACKS} of {len(names):,} tracks are drawn.")
        names = names[:MOST_TRACKS]
        spans = [span for span in spans if span.track in set(names)]
    if len(spans) > MOST_SPANS:
        words.append(f"The longest {MOST_SPANS:,} of {len(spans):,} spans are drawn.")
        spans = sorted(spans, key=lambda span: span.start_ns - span.end_ns)[:MOST_SPANS]
        names = [name for name in names if any(span.track == name for span in spans)]
    return sorted(spans, key=lambda span: span.start_ns), names, " ".join(words)


def _description(span: Span, start: int) -> str:
    """A span in words, such as `main: compute, 33.3 ms from 12.30 to 45.60 ms, rows 128`."""
    begin, end = (span.start_ns - start) / 1e6, (span.end_ns - start) / 1e6
    known = [(name, value) for name, value in span.numbers.items() if name != _KIND]
    numbers = "".join(f", {_number(name, value)}" for name, value in known[:8])
    place = f"from {begin:.2f} to {end:.2f} ms"
    return f"{shortened(span.track, 80)}: {shortened(span.name, 80)}, {duration(span.seconds)} {place}{numbers}"


def _number(name: str, value: float) -> str:
    return byte_count(value) if name == "bytes" else f"{shortened(name, 40)} {count(value)}"


def _key(colours: Mapping[str, str]) -> dict[str, str]:
    """A legend: the names of each colour, joined and without trailing numbers, with that colour."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, colour in colours.items():
        if (plain := shortened(name.rstrip(" 0123456789") or name, 24)) not in names[colour]:
            names[colour].append(plain)
    return {shortened(", ".join(same), 60): colour for colour, same in names.items()}


def _controls() -> Markup:
    buttons = [
        tag("button", sign, type="button", data_zoom=zoom, aria_label=label, title=label)
        for sign, zoom, label in (("\N{MINUS SIGN}", 0.5, "Zoom out"), ("+", 2, "Zoom in"), ("all", 0, "Show all"))
    ]
    return tag("div", tag("p", "Point at a span to read its numbers.", class_="readout"), *buttons, class_="controls")


def _totals(spans: Sequence[Span], names: Sequence[str]) -> Markup:
    lengths: dict[tuple[str, str], list[float]] = defaultdict(list)
    for span in spans:
        lengths[span.track, span.name].append(span.seconds)
    order = sorted(lengths, key=lambda key: (names.index(key[0]), -sum(lengths[key])))
    rows = [
        (
            shortened(track, 80),
            shortened(name, 80),
            f"{len(lengths[track, name]):,}",
            duration(statistics.median(lengths[track, name])),
            duration(sum(lengths[track, name])),
        )
        for track, name in order
    ]
    heads = ("track", "span", "count", "median", "total")
    numbers = wide(table("Spans by track and name", heads, rows))
    return tag("details", tag("summary", "Numbers of the timeline"), numbers)


def _line(name: str, points: Sequence[tuple[int, float]], start: int, num_lines: int) -> Line:
    seconds = [((time - start) / 1e9, value) for time, value in points]
    return Line(name, thinned(seconds, max(20, min(400, _MOST_POINTS // num_lines))))


def _lines(
    lines: Sequence[Line],
    colours: Mapping[str, str],
    label: str,
    describe: Callable[[float], str],
    top: float | None,
    unit: float,
) -> Markup:
    return line_chart(lines, colours, label, lambda time: f"{time:.5g} s", describe, top=top, unit=unit)


def _sampled(name: str, samples: Sequence[DeviceSample]) -> tuple[str, ...]:
    clocks = [one.clock_mhz for one in samples if one.clock_mhz is not None]
    return (
        shortened(name, 80),
        f"{len(samples):,}",
        share(statistics.median(one.utilisation for one in samples)),
        byte_count(max(one.memory_bytes for one in samples)),
        f"{count(statistics.median(clocks))} MHz" if clocks else UNKNOWN,
    )
