"""A plan as text and as data. Imports `predict`, `questions`, `setup` and `units`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from abreast.plan.predict import Prediction
from abreast.plan.questions import Cost, Help
from abreast.plan.setup import Setup
from abreast.units import count, counted, duration, share, times


@dataclass(frozen=True)
class Plan:
    """All that one call of `abreast plan` found."""

    setup: Setup
    points: Sequence[Prediction]
    worth: Prediction
    helps: Sequence[Help]
    cost: Cost | None = None


def text(plan: Plan) -> str:
    return "\n".join([*_what(plan.setup), "", *_table(plan.points), "", *_answers(plan)])


def as_data(plan: Plan) -> dict[str, Any]:
    """For `--json`: predicted values, never to be mistaken for measured ones."""
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
    }


def _what(setup: Setup) -> list[str]:
    model, machine = setup.model, setup.machine
    lines = [
        f"predicted, not measured: {model.name} ({count(round(model.num_parameters))} parameters) on {machine.name}",
        f"step of one device: {duration(setup.step.seconds)} for {count(setup.rows)} rows ({setup.step.source})",
    ]
    if machine.assumed:
        lines.append(f"assumed of the machine: {', '.join(machine.assumed)}")
    return lines


def _table(points: Sequence[Prediction]) -> list[str]:
    rows = [("DEVICES", "HOSTS", "ROWS/S", "80% INTERVAL", "EFFICIENCY", "STEP", "BOTTLENECK")]
    for point in points:
        if point.abstains:
            rows.append(
                (str(point.num_devices), str(point.num_hosts), "-", "-", "-", "-", f"no prediction: {point.abstains}")
            )
            continue
        rows.append(
            (
                str(point.num_devices),
                str(point.num_hosts),
                count(_rounded(point.rows_per_second)),
                f"{count(_rounded(point.low))} to {count(_rounded(point.high))}",
                share(point.efficiency),
                duration(point.step_seconds),
                f"{point.bottleneck} {share(point.parts[point.bottleneck] / point.step_seconds)}",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _answers(plan: Plan) -> list[str]:
    last = plan.points[-1]
    lines = [
        f"worth it: {counted(plan.worth.num_devices, 'device')}; more bring less than half of their own throughput"
    ]
    if plan.worth is last:
        lines = [
            f"worth it: all {last.num_devices}; each doubling brings more than half of its devices' own throughput"
        ]
    parts = ", ".join(
        f"{name} {duration(seconds)}" for name, seconds in last.parts.items() if seconds > 0.001 * last.step_seconds
    )
    lines.append(f"a step of {counted(last.num_devices, 'device')}: {parts}")
    if plan.helps:
        lines.append("helps most: " + "; ".join(f"{each.change} {times(each.gain)}" for each in plan.helps[:3]))
    else:
        lines.append("helps most: nothing of what is known here brings 1%")
    if plan.cost is not None:
        cost = plan.cost
        lines.append(
            f"an epoch on {last.num_devices}: {cost.hours:.3g} h, price {cost.price:,.2f} ({cost.low:,.2f} to {cost.high:,.2f})"
        )
    return lines


def _rounded(rate: float) -> float:
    return round(rate) if rate >= 100 else round(rate, 1)
