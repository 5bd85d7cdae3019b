"""A plan as one HTML file that loads nothing else, in the style of bench's report, with measurements beside the predictions."""

from __future__ import annotations

import os
from collections.abc import Sequence

from abreast import whole_file
from abreast.bench import plots
from abreast.bench.noise import TOO_NOISY
from abreast.bench.series import Comparison, Point, Series
from abreast.page import drawings
from abreast.page.document import document
from abreast.page.markup import Markup, joined, sentence, shortened, tag
from abreast.page.sections import origin, section
from abreast.plan.measured_steps import at
from abreast.plan.predict import Prediction
from abreast.plan.report import (
    MEASURED_NAMES,
    Plan,
    bottleneck_words,
    epoch_words,
    helps_words,
    part_name,
    rate_words,
    row_words,
    worth_words,
)
from abreast.units import UNKNOWN, count, counted, duration, duration_range, long_duration, share, times

_LEAST_SHARE = 0.01  # smallest share of a step at which the second longest part is named

_MEANINGS = (
    "All-reduce: the part that computing does not hide. Stragglers: the time that the other replicas wait for the slowest. "
    "Launches: the time to start the exchange of each gradient tensor; bars have it in all-reduce. Update: the optimizer."
)


def write_page(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write the whole page or nothing. Raises `AbreastError` if it cannot be written."""
    whole_file.write("the page", page(plan), path)


def page(plan: Plan) -> Markup:
    """The page as HTML."""
    shown = [point for point in plan.points if not point.abstains]
    comparison = _comparison(plan, shown)
    main = tag(
        "main",
        _header(plan),
        _scaling(plan, comparison),
        _beside(plan, shown),
        _steps(comparison, shown),
        _helps(plan),
        _origin(plan),
    )
    setup = plan.setup
    title = f"{shortened(setup.model.name, 60)} on {shortened(setup.machine.name, 60)}: a plan"
    footer = "Made by abreast plan --html. This file is complete; it loads nothing."
    return document(title, main, footer, style=drawings.style())


def _comparison(plan: Plan, shown: Sequence[Prediction]) -> Comparison:
    """The prediction as a series, beside the measured series if there are any."""
    predicted = Series("abreast", tuple(map(series_point, shown)), predicted=True)
    if plan.measured is None:
        return Comparison({}, {}, (predicted,))
    return Comparison(plan.measured.facts, plan.measured.machine, (*plan.measured.series, predicted))


def series_point(point: Prediction) -> Point:
    """A prediction as a point of a series, with the names that a measured step has for its parts."""
    rows = point.rows_per_second * point.step_seconds
    parts: dict[str, float] = {}
    for name, seconds in point.parts.items():
        if seconds > 0:
            drawn = MEASURED_NAMES.get("exchange" if name == "launches" else name, name)
            parts[drawn] = parts.get(drawn, 0.0) + seconds
    return Point(point.num_devices, rows, point.step_seconds, rows / point.high, rows / point.low, parts)


def _header(plan: Plan) -> Markup:
    setup, last = plan.setup, plan.points[-1]
    facts = [
        "predicted, not measured",
        f"{count(round(setup.model.num_parameters))} parameters",
        f"{row_words(setup.rows)} {'in all' if setup.strong else 'per device'}",
        f"exchange {setup.exchange}",
        *([f"gradients in {setup.gradients.name}"] if setup.gradients.name != "fp32" else []),
        *([f"accumulated over {setup.accumulation} steps"] if setup.accumulation > 1 else []),
    ]
    answers = [sentence(helps_words(plan)), *([] if plan.cost is None else [sentence(epoch_words(plan))])]
    verdict = tag(
        "div",
        tag("p", tag("strong", sentence(worth_words(plan)))),
        tag("p", " ".join([_longest(last), *answers]), class_="advice"),
        class_="verdict note",
    )
    return tag(
        "header",
        tag("p", "abreast plan", class_="made-by"),
        tag("h1", f"{shortened(setup.model.name, 80)} on {shortened(setup.machine.name, 80)}"),
        tag("ul", *(tag("li", fact) for fact in facts), class_="ran"),
        verdict,
        tag("dl", *_figures(plan), class_="figures"),
    )


def _longest(point: Prediction) -> str:
    if point.abstains:
        return f"No prediction for {counted(point.num_devices, 'device')}: {point.abstains}."
    words = f"Longest part of a step of {counted(point.num_devices, 'device')}: {bottleneck_words(point)}"
    others = {name: seconds for name, seconds in point.parts.items() if name != point.bottleneck}
    name = max(others, key=lambda name: others[name])
    part = others[name] / point.step_seconds
    return f"{words}; then {part_name(name)} {share(part)}." if part >= _LEAST_SHARE else f"{words}."


def _figures(plan: Plan) -> list[Markup]:
    last = plan.points[-1]
    figures = [("step of one device", long_duration(plan.setup.step.seconds))]
    if not last.abstains:
        figures += [
            (f"rows per second of {counted(last.num_devices, 'device')}", rate_words(last.rows_per_second)),
            ("of linear scaling", share(last.efficiency)),
        ]
    if plan.cost is not None and plan.price is not None:
        figures.append(("price of an epoch", plan.price.words(plan.cost.price)))
    return [tag("div", tag("dt", name), tag("dd", tag("b", value))) for name, value in figures]


def _scaling(plan: Plan, comparison: Comparison) -> Markup:
    figures = [each for each in plots.figures(comparison) if each[0] != "step"]
    rows = []
    for point in plan.points:
        counts = (f"{point.num_devices:,}", f"{point.num_hosts:,}")
        if point.abstains:
            rows.append((*counts, "no prediction", "", "", "", point.abstains))
            continue
        interval = f"{rate_words(point.low)} to {rate_words(point.high)}"
        speed_up = comparison.speed_up(series_point(point))
        ratios = (UNKNOWN if speed_up is None else times(speed_up), share(point.efficiency))
        rows.append((*counts, rate_words(point.rows_per_second), interval, *ratios, bottleneck_words(point)))
    heads = ("devices", "hosts", "rows/s", "80% interval", "speed-up", "efficiency", "bottleneck")
    about = "The interval contains the measured rate in four cases of five."
    if plan.setup.machine.shares_cores:
        about = "The interval reaches from devices that share the cores to devices that each have their own."
    about += " Dashes and hollow marks are predicted" + (
        "." if plan.measured is None else ", full lines and filled marks measured."
    )
    return section("Scaling", about, drawings.drawings(figures), drawings.numbers("Predicted throughput", heads, rows))


def _beside(plan: Plan, shown: Sequence[Prediction]) -> Markup:
    """A table of the predictions that were also measured."""
    rows = []
    for point in shown:
        found = at(plan.measured, point.num_devices)
        if found is None:
            continue
        low, high = found.range_per_second
        inside = "yes" if point.low <= found.rows_per_second <= point.high else "no"
        rows.append(
            (
                f"{point.num_devices:,}",
                rate_words(point.rows_per_second),
                rate_words(found.rows_per_second),
                f"{rate_words(low)} to {rate_words(high)}",
                TOO_NOISY if found.noise else f"{point.rows_per_second / found.rows_per_second - 1:+.1%}",
                "given" if point.num_devices == 1 else TOO_NOISY if found.noise else inside,
            )
        )
    if plan.measured is None:
        return joined()
    heads = ("devices", "predicted rows/s", "measured rows/s", "quartiles", "prediction is off by", "in the interval")
    about = f"{plan.measured.title}; {plan.measured.devices}."
    if plan.measured.noisy:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in plan.measured.noisy.items())
        about += f" Too noisy to be compared, and left out of the figures: {reasons}."
    return section("Predicted and measured", about, drawings.numbers("Predicted and measured throughput", heads, rows))


def _steps(comparison: Comparison, shown: Sequence[Prediction]) -> Markup:
    if not shown:
        return joined()
    names = [name for name in shown[0].parts if any(point.parts[name] > 0 for point in shown)]
    longest = max(point.step_seconds for point in shown)
    rows = []
    for point in shown:
        rows_of_step = point.rows_per_second * point.step_seconds
        interval = duration_range(rows_of_step / point.high, rows_of_step / point.low, longest)
        parts = (duration(point.parts[name], longest) for name in names)
        rows.append((f"{point.num_devices:,}", duration(point.step_seconds, longest), interval, *parts))
    heads = ("devices", "step", "80% interval", *map(part_name, names))
    figures = [each for each in plots.figures(comparison) if each[0] == "step"]
    table = drawings.numbers("Parts of a predicted step", heads, rows)
    return section("Where a step goes", _MEANINGS, drawings.drawings(figures), table)


def _helps(plan: Plan) -> Markup:
    last = plan.points[-1]
    rows = [(each.change, times(each.gain)) for each in plan.helps]
    if not rows:
        return section("What helps", "", tag("p", "No known change brings 1%.", class_="none"))
    about = f"One change at a time, for {counted(last.num_devices, 'device')}. Changes that bring less than 1% are left out."
    heads = ("change", "throughput")
    return section("What helps", about, drawings.numbers("Changes and their throughput", heads, rows))


def _origin(plan: Plan) -> Markup:
    """The sources of the plan's numbers."""
    setup = plan.setup
    machine = setup.machine
    entries = {
        "step of one device": setup.step.source,
        "model": setup.model.source or "as given",
        "device": f"{machine.device.name}: {machine.device.source or 'as given'}",
        "software": setup.software,
        "assumed of the machine": ", ".join(machine.assumed),
        **{name.replace("_", " "): str(text) for name, text in machine.sources.items()},
    }
    return origin(entries)
