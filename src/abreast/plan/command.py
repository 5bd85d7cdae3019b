"""`abreast plan`: options in, a plan out. Imports the rest of this package, and of bench what reads its lines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abreast import plain_json
from abreast.bench import lines
from abreast.bench.series import Comparison
from abreast.errors import DataError
from abreast.measure.whole_file import writable
from abreast.plan.gradients import parse_format
from abreast.plan.machine import Machine, find_machine
from abreast.plan.measured_steps import at, measured_steps, rows_of, with_measured_shape
from abreast.plan.models import Model, find_model, is_known, model_of, with_tensors
from abreast.plan.predict import Prediction, predictions
from abreast.plan.questions import cost, helps, worth
from abreast.plan.report import Plan, as_data, text
from abreast.plan.roofline import StepTime, roofline
from abreast.plan.setup import Setup, check_rows
from abreast.stdout import say

_USUAL_ROWS = 32.0
_LONGEST_SECONDS = 3600  # of a step; what is longer was meant in milliseconds
_COLUMNS = ("median", "unit")
_ROWS = ("rows", "images", "samples", "sequences", "examples", "sentences")


def run(options: argparse.Namespace) -> int:
    target = None if options.html is None else writable(options.html)
    plan = make_plan(options)
    say(json.dumps(as_data(plan), indent=2) if options.json else text(plan))
    if target is not None:
        from abreast.plan.page import write_page  # what draws is slow to load

        write_page(plan, target)
    return 0


def make_plan(options: argparse.Namespace) -> Plan:
    measured = None
    if options.measured is not None:
        half = lines.half_line(Path(options.measured))
        if half is not None:
            print(f"abreast: {half}", file=sys.stderr)
        measured = measured_steps(options.measured, options.model, options.batch, options.strong)
    setup = setup_of(options, measured)
    most = setup.machine.devices_per_host if options.devices is None else options.devices
    if options.devices is None and options.hosts is not None:
        most *= options.hosts
    hosts = -(-most // setup.machine.devices_per_host) if options.hosts is None else options.hosts
    _check_even(setup, most, hosts)
    points = predictions(setup, most, hosts)
    price = None
    if options.price is not None or options.epoch_rows is not None:
        if options.price is None or options.epoch_rows is None:
            raise DataError("a price needs the rows of an epoch and the price", "give --epoch-rows and --price")
        price = cost(_last_predicted(points), options.epoch_rows, options.price)
    return Plan(setup, points, worth(points), helps(setup, points[-1]), price, measured)


def _last_predicted(points: Sequence[Prediction]) -> Prediction:
    """The most devices of which something is predicted; of one device, something always is."""
    return [point for point in points if not point.abstains][-1]


def setup_of(options: argparse.Namespace, measured: Comparison | None = None) -> Setup:
    model = _model(options, measured)
    machine = find_machine(options.machine)
    rows = options.batch
    if rows is None:
        rows = _USUAL_ROWS if measured is None else rows_of(measured)
    check_rows(rows)
    return Setup(
        model,
        machine,
        _step(options, model, machine, rows, measured),
        rows,
        options.precision,
        options.exchange,
        options.software,
        parse_format(options.gradients),
        options.accumulate,
        options.sync_every,
        1e6 * options.bucket_mb,
        not options.no_overlap,
        options.one_process,
        not options.no_staging,
        options.row_bytes,
        options.input_rate,
        options.strong,
        options.slow_link,
        options.slow_network,
        options.lost,
        options.stragglers,
    )


def _model(options: argparse.Namespace, measured: Comparison | None) -> Model:
    """As given; else as it ships, with the tensors that were measured, if any."""
    if options.parameters is not None:
        return model_of(options.parameters, options.tensors, options.model or "the model")
    found = None
    if measured is not None:
        name = options.model or str(measured.facts["model"])
        found = with_measured_shape(find_model(name) if is_known(name) else None, measured)
    if found is None and options.model is None:
        raise DataError("no model is given", "say `--model resnet50`, or `--parameters 25.6e6`")
    model = found or find_model(options.model)
    return model if options.tensors is None else with_tensors(model, options.tensors)


def _step(
    options: argparse.Namespace, model: Model, machine: Machine, rows: float, measured: Comparison | None
) -> StepTime:
    given = [name for name in ("step_time", "step_from") if getattr(options, name) is not None]
    if len(given) == 2:
        raise DataError("the step time is given twice", "give --step-time or --step-from")
    if options.step_time is not None:
        return StepTime(_in_seconds(options.step_time), 1.0, "given")
    if options.step_from is not None:
        return _measured(options.step_from, rows)
    one = at(measured, 1)
    if one is not None:
        return StepTime(one.seconds, 1.0, f"measured, {options.measured}")
    return roofline(model, machine.device, rows, options.precision)


def _in_seconds(step_time: float) -> float:
    if step_time > _LONGEST_SECONDS:
        raise DataError(f"a step of {step_time:g} s", "give seconds, as 0.125 for 125 ms")
    return step_time


def _measured(path: str, rows: float) -> StepTime:
    """The step time in the last line of a file of JSON lines: in seconds, or as rows per second."""
    try:
        lines = [line for line in Path(path).read_text().splitlines() if line.strip()]
        line = plain_json.parse(lines[-1])
        value, unit = line["median"], str(line["unit"])
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", "give a file of JSON lines") from None
    except (IndexError, KeyError, TypeError, ValueError):
        raise DataError(f"the last line of {path} is no measurement", f"it has {' and '.join(_COLUMNS)}") from None
    if not plain_json.positive(value):
        raise DataError(f"{path}: the median of its last line is {value!r}", "it is a number above zero")
    _check_case(path, line.get("case"), rows)
    if unit in ("s", "seconds", "s/step", "seconds/step", "seconds per step"):
        return StepTime(_in_seconds(value), 1.0, f"measured, {path}")
    if unit in ("ms", "ms/step"):
        return StepTime(_in_seconds(value / 1000), 1.0, f"measured, {path}")
    items, _, per = unit.partition("/")
    if per in ("s", "second") and items in _ROWS:
        return StepTime(rows / value, 1.0, f"measured, {path}")
    raise DataError(f"{path}: a step time in {unit!r}", "its unit is s, ms, or rows/s")


def _check_case(path: str, case: Any, rows: float) -> None:
    """An error for a line that says itself that it is no step of one device with so many rows."""
    told = case if isinstance(case, dict) else {}
    if told.get("devices", 1) != 1:
        hint = f"give the line of one device, or all of the file with `--measured {path}`"
        raise DataError(f"the last line of {path} is of {told['devices']} devices", hint)
    measured = told.get("rows_per_device", rows)
    if measured != rows:
        hint = f"say `--batch {measured}`, or give the line of the rows that are planned"
        raise DataError(f"the last line of {path} is of {measured} rows, and {rows:g} are planned", hint)


def _check_even(setup: Setup, num_devices: int, num_hosts: int) -> None:
    """An error that says which numbers of devices there can be."""
    per_host = setup.machine.devices_per_host
    if num_devices > 0 and num_hosts > 0 and num_devices % num_hosts:
        near = min(per_host, max(1, round(num_devices / num_hosts))) * num_hosts
        raise DataError(
            f"{num_devices} devices on {num_hosts} hosts, with {per_host} each",
            f"as many on each host, as {near} devices",
        )
    setup.check_devices(num_devices, num_hosts)
