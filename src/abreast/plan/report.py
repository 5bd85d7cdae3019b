"""A plan as text and as data. Not here: the page (`page.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from abreast.bench.series import Comparison
from abreast.plan.measured_steps import at
from abreast.plan.predict import Prediction
from abreast.plan.price import Price
from abreast.plan.questions import Cost, Help
from abreast.plan.setup import Setup
from abreast.text_table import text_table
from abreast.timeline.step_parts import LABELS
from abreast.units import count, counted, long_duration, share, times

# Parts of a predicted step that have another name in a measured step.
MEASURED_NAMES = {"compute": "compute", "exchange": "all_reduce", "copies": "copy", "input": "wait"}


@dataclass(frozen=True)
class Plan:
    """The result of one call of `abreast plan`; `measured` has the user's measurements of the same training."""

    setup: Setup
    points: Sequence[Prediction]
    worth: Prediction
    helps: Sequence[Help]
    cost: Cost | None = None
    price: Price | None = None
    measured: Comparison | None = None


def text(plan: Plan) -> str:
    return "\n".join([*_what(plan.setup), "", *_table(plan), "", *_answers(plan)])


def as_data(plan: Plan) -> dict[str, Any]:
    """The content of `--json`. Its `kind` marks the values as predicted."""
    setup = plan.setup
    return {
        "kind": "prediction",
        "model": setup.model.name,
        "machine": setup.machine.name,
        "step_seconds": setup.step.seconds,
        "step_source": setup.step.source,
        "rows_per_device": setup.rows,
        "exchange": setup.exchange,
        "software": setup.software,
        "gradients": setup.gradients.name,
        "accumulation": setup.accumulation,
        "points": [asdict(point) for point in plan.points],
        "worth_devices": plan.worth.num_devices,
        "bottleneck": plan.points[-1].bottleneck,
        "helps": [asdict(each) for each in plan.helps],
        "cost_per_epoch": None if plan.cost is None else asdict(plan.cost),
        **({} if plan.measured is None else {"measured": _measured(plan)}),
    }


def _measured(plan: Plan) -> list[dict[str, Any]]:
    """The measured rates of the predicted points; the range is from quartile to quartile."""
    found = [point for each in plan.points if (point := at(plan.measured, each.num_devices)) is not None]
    return [
        {"num_devices": point.devices, "rows_per_second": point.rows_per_second, "quartiles": point.range_per_second}
        for point in found
    ]


def _what(setup: Setup) -> list[str]:
    model, machine = setup.model, setup.machine
    lines = [
        f"predicted, not measured: {model.name} ({count(round(model.num_parameters))} parameters) on {machine.name}",
        f"step of one device: {long_duration(setup.step.seconds)} for {row_words(setup.rows)} ({setup.step.source})",
    ]
    if setup.accumulation > 1:
        lines.append(f"a step below is {setup.accumulation} such steps with accumulated gradients, and one update")
    if machine.assumed:
        lines.append(f"assumed about the machine: {', '.join(machine.assumed)}")
    return lines


def _table(plan: Plan) -> list[str]:
    rows: list[tuple[str, ...]] = [("DEVICES", "HOSTS", "ROWS/S", "80% INTERVAL", "EFFICIENCY", "STEP", "BOTTLENECK")]
    rows += [_row(point) for point in plan.points]
    if plan.measured is not None:
        found = [at(plan.measured, point.num_devices) for point in plan.points]
        rates = ["MEASURED", *("-" if point is None else rate_words(point.rows_per_second) for point in found)]
        rows = [(*row[:4], rate, *row[4:]) for row, rate in zip(rows, rates, strict=True)]
    return text_table(rows).splitlines()


def _row(point: Prediction) -> tuple[str, ...]:
    counts = (str(point.num_devices), str(point.num_hosts))
    if point.abstains:
        return (*counts, "-", "-", "-", "-", f"no prediction: {point.abstains}")
    return (
        *counts,
        rate_words(point.rows_per_second),
        f"{rate_words(point.low)} to {rate_words(point.high)}",
        share(point.efficiency),
        long_duration(point.step_seconds),
        bottleneck_words(point),
    )


def _answers(plan: Plan) -> list[str]:
    last = plan.points[-1]
    if last.abstains:
        step = f"no prediction for {counted(last.num_devices, 'device')}; what helps is a rough estimate"
    else:
        step = f"a step of {counted(last.num_devices, 'device')}: {_parts(last)}"
    return [worth_words(plan), step, helps_words(plan), *([] if plan.cost is None else [epoch_words(plan)])]


def _parts(point: Prediction) -> str:
    shown = [(name, seconds) for name, seconds in point.parts.items() if seconds > 0.001 * point.step_seconds]
    return ", ".join(f"{part_name(name)} {long_duration(seconds)}" for name, seconds in shown)


def bottleneck_words(point: Prediction) -> str:
    """The part that takes most of a step, with its share."""
    return f"{part_name(point.bottleneck)} {share(point.parts[point.bottleneck] / point.step_seconds)}"


def part_name(part: str) -> str:
    """The name of a part of a predicted step; the same as in a timeline, if that has the part."""
    return LABELS.get(MEASURED_NAMES.get(part, part), part)


def worth_words(plan: Plan) -> str:
    """The number of devices that is worth it, in words."""
    most, points = plan.worth.num_devices, list(plan.points)
    if len(points) == 1:
        return "worth it: only one device was planned; --devices plans for more"
    after = points.index(plan.worth) + 1
    if after == len(points):
        return f"worth it: all {most}; each added device brings more than half of its own throughput"
    if points[after].abstains:
        return f"worth it: {counted(most, 'device')}; there is no prediction for {points[after].num_devices}"
    return f"worth it: {counted(most, 'device')}; more bring less than half of their own throughput"


def helps_words(plan: Plan) -> str:
    if not plan.helps:
        return "helps most: no known change brings 1%"
    return "helps most: " + "; ".join(f"{each.change} {times(each.gain)}" for each in plan.helps[:3])


def epoch_words(plan: Plan) -> str:
    """Time and price of an epoch; only for a plan with a price."""
    assert plan.cost is not None and plan.price is not None
    cost, words = plan.cost, plan.price.words
    price = f"{words(cost.price)} ({words(cost.low)} to {words(cost.high)})"
    return f"an epoch on {counted(cost.num_devices, 'device')}: {long_duration(3600 * cost.hours)}, price {price}"


def row_words(rows: float) -> str:
    return f"{count(rows)} {'row' if rows == 1 else 'rows'}"


def rate_words(rate: float) -> str:
    """Rows per second, without the unit."""
    return count(round(rate)) if rate >= 100 else f"{rate:.3g}"
