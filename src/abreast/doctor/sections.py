"""The sections of the doctor's page, from top to bottom. Each function turns a diagnosis into markup.

Not here: the page around them (`page.py`), the sections over time (`section_times.py`), and drawing (`page/charts.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from abreast.backend.registry import title
from abreast.doctor.diagnosis import Diagnosis, Experiment, Finding
from abreast.page.charts import Bar, stacked_bar, swatch
from abreast.page.markup import Markup, joined, prose, sentence, shortened, tag
from abreast.page.palette import colour_classes
from abreast.page.sections import MOST_ROWS, fact_list, section, table
from abreast.units import UNKNOWN, count, counted, duration, share, times

MOST_FINDINGS = 40

_GIVEN = "as given"  # the experiment that changes nothing
_REMAINDER = "the remaining time: Keras, abreast, and the script itself"
# The meaning of a part of a step. The first word that occurs in the part's name decides.
_MEANINGS = (
    ("with all-reduce", "the devices compute the model and sum gradients; the backend cannot separate the two"),
    ("reduce", "summing gradients over the devices, except where computing hides it"),
    ("callback", "callbacks run, and the devices are idle"),
    ("wait", "the next batch is not there yet"),
    ("input", "the next batch is not there yet"),
    ("cop", "the next batch is being copied to the devices"),
    ("comput", "the devices compute the model"),
    ("validation", "validation, spread over the steps of an epoch"),
    ("epoch end", "the time between two epochs with its callbacks, spread over the steps of an epoch"),
    ("python", _REMAINDER),
    ("rest", _REMAINDER),
    ("other", _REMAINDER),
)


def headline(diagnosis: Diagnosis) -> Markup:
    """The model, its devices and its speed, and the first thing to do."""
    devices = diagnosis.devices
    facts = [
        title(diagnosis.backend),
        counted(len(devices), "device") + _named(devices),
        f"global batch of {counted(diagnosis.batch_rows, 'row')}",
        counted(diagnosis.num_steps, "step"),
    ]
    return tag(
        "header",
        tag("p", "abreast doctor", class_="made-by"),
        tag("h1", shortened(diagnosis.model, 160)),
        tag("ul", *(tag("li", fact) for fact in facts), class_="ran"),
        _verdict(diagnosis),
        tag("dl", *_figures(diagnosis), class_="figures"),
    )


def breakdown(diagnosis: Diagnosis) -> Markup:
    """The median step as one bar and as a table."""
    step = diagnosis.step_seconds
    parts = dict(list(diagnosis.breakdown.items())[:MOST_ROWS])
    if not parts:
        return section("One step", "", tag("p", "The parts of a step were not measured.", class_="none"))
    colours = colour_classes(parts)
    bar = stacked_bar(Bar("One step", parts), colours, duration, height=44)
    drawn = _keyed(parts, colours)
    rows: list[tuple[str, ...]] = [
        (
            joined(swatch(drawn.get(name, "none")), shortened(name, 120)),
            duration(seconds, like=step),
            _share(seconds, step),
            _meaning(name),
        )
        for name, seconds in parts.items()
    ]
    total = sum(parts.values())
    rows.append(("total", duration(total, like=step), _share(total, step), ""))
    numbers = table("Parts of the median step", ("part", "time", "share", "meaning"), rows, foot=True, kind="parts")
    about = f"The median step takes {duration(step, like=step)}, split into these parts."
    return section("One step", about, tag("figure", bar), numbers)


def _keyed(parts: Mapping[str, float], colours: Mapping[str, str]) -> dict[str, str]:
    """The colours of the parts that the bar shows, each once: only the first of several grey parts has grey."""
    drawn = [name for name, seconds in parts.items() if math.isfinite(seconds) and seconds > 0]
    first = {colours[name]: name for name in reversed(drawn)}
    return {name: colour for colour, name in first.items()}


def findings(diagnosis: Diagnosis) -> Markup:
    """The findings, most expensive first."""
    found = diagnosis.findings
    if not found:
        nothing = tag("p", "Nothing stands out: no cause of lost time is worth a change.", class_="none")
        return section("Findings", "", nothing)
    shown = [tag("li", _finding(finding, diagnosis), class_="finding") for finding in found[:MOST_FINDINGS]]
    about = "The findings that cost most time in each step come first."
    if len(found) > MOST_FINDINGS:
        about += f" The first {MOST_FINDINGS} of {len(found)} are shown."
    return section("Findings", about, tag("ol", *shown, class_="findings"))


def experiments(diagnosis: Diagnosis) -> Markup:
    """The step with one thing changed, next to the step as given."""
    if not diagnosis.experiments:
        return section("Counter-experiments", "", tag("p", "None were run.", class_="none"))
    shown = list(diagnosis.experiments)
    if all(one.name != _GIVEN for one in shown):
        shown.insert(0, Experiment(_GIVEN, "", diagnosis.num_steps, diagnosis.step_seconds, 0.0))
    lengths = [one.median_seconds + one.spread_seconds for one in shown]
    longest = max((length for length in lengths if math.isfinite(length)), default=1.0)
    rows = [_experiment(one, diagnosis, longest) for one in shown]
    heads = ("steps", "time of a step", "median", "spread", "of the step as given")
    about = (
        "Each experiment runs some steps with one thing changed: the median time of a step, and the quartiles' spread."
    )
    return section("Counter-experiments", about, table("Counter-experiments", heads, rows, kind="experiments"))


def facts(diagnosis: Diagnosis) -> Markup:
    """Versions, machine and settings."""
    if not diagnosis.facts:
        return joined()
    return section("Facts", "", fact_list(diagnosis.facts))


def rate(diagnosis: Diagnosis, seconds: float) -> str:
    """Rows per second if a step takes `seconds`, without the unit."""
    return count(diagnosis.rows_per_second_of(seconds)) if seconds > 0 else UNKNOWN


def _named(devices: Sequence[str]) -> str:
    shown = [shortened(name, 40) for name in devices]
    if not shown:
        return ""
    return ": " + (", ".join(shown) if len(shown) <= 4 else f"{shown[0]} to {shown[-1]}")


def _verdict(diagnosis: Diagnosis) -> Markup:
    found = diagnosis.findings
    if not found:
        return tag(
            "div",
            tag("p", tag("strong", "Nothing stands out."), " No cause of lost time is worth a change."),
            class_="verdict good",
        )
    first = found[0]
    what = prose(sentence(first.what), 600)
    step = diagnosis.step_seconds
    lost = f" It costs {duration(first.lost_seconds, like=step)} of each {duration(step, like=step)} step."
    if first.lost_seconds == 0:
        lost = " It costs no time now."
    kind = "bad" if first.lost_seconds else "note"  # the CSS class
    return tag(
        "div",
        tag("p", tag("strong", what), tag("span", lost, class_="cost")),
        tag("p", prose(sentence(first.advice)), class_="advice"),
        class_=f"verdict {kind}",
    )


def _meaning(name: str) -> str:
    return next((meaning for word, meaning in _MEANINGS if word in name.lower()), "")


def _figures(diagnosis: Diagnosis) -> list[Markup]:
    now = rate(diagnosis, diagnosis.step_seconds)
    per_device = diagnosis.batch_rows / max(1, len(diagnosis.devices))
    figures = [("rows per second", now, ""), ("median step", duration(diagnosis.step_seconds), "")]
    figures.append(("rows per device", count(per_device), ""))
    after = next((one.rows_per_second_after for one in diagnosis.findings[:1]), None)
    if after is not None and diagnosis.step_seconds > 0:
        figures.insert(
            1, ("rows per second once that is fixed", count(after), times(after / diagnosis.rows_per_second))
        )
    return [
        tag("div", tag("dt", name), tag("dd", tag("b", value), tag("small", note) if note else ""))
        for name, value, note in figures
    ]


def _finding(finding: Finding, diagnosis: Diagnosis) -> Markup:
    step = diagnosis.step_seconds
    cost = tag(
        "div",
        tag("b", duration(finding.lost_seconds, like=step) if finding.lost_seconds else "no time"),
        tag("span", f"{_share(finding.lost_seconds, step)} of a step" if finding.lost_seconds else "is lost now"),
        stacked_bar(
            Bar("lost", {"lost": finding.lost_seconds}), {"lost": "c0"}, duration, full=max(step, 1e-12), height=5
        ),
        class_="cost",
    )
    words = tag(
        "div",
        tag(
            "h3",
            prose(sentence(finding.what).removesuffix("."), 1000),
            " ",
            tag("code", shortened(finding.cause, 60), class_="cause"),
        ),
        tag("p", prose(sentence(finding.evidence)), class_="evidence"),
        tag("p", prose(sentence(finding.advice)), class_="advice"),
        _after(finding, diagnosis),
    )
    return joined(cost, words)


def _after(finding: Finding, diagnosis: Diagnosis) -> str:
    after = finding.rows_per_second_after
    if after is None or diagnosis.step_seconds <= 0:
        return ""
    now = diagnosis.rows_per_second
    return tag(
        "p", f"Then {count(after)} rows per second instead of {count(now)} ({times(after / now)}).", class_="after"
    )


def _experiment(one: Experiment, diagnosis: Diagnosis, longest: float) -> tuple[str, ...]:
    name = joined(
        tag("strong", shortened(one.name, 120)),
        tag("small", prose(one.what, 400), "; " if one.what else "", counted(one.num_steps, "step")),
    )
    length = Bar(shortened(one.name, 120), {"step": one.median_seconds}, one.spread_seconds)
    colours = {"step": "c7" if one.name == _GIVEN else "c2"}
    bar = stacked_bar(length, colours, duration, full=longest or 1.0, height=14)
    spread = f"± {duration(one.spread_seconds / 2, like=longest)}" if one.spread_seconds else ""
    return (
        name,
        bar,
        duration(one.median_seconds, like=longest),
        spread,
        _share(one.median_seconds, diagnosis.step_seconds),
    )


def _share(seconds: float, step: float) -> str:
    return share(seconds / step) if step > 0 else UNKNOWN
