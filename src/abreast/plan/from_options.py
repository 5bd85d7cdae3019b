"""The plan for the options of `abreast plan`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from abreast.bench import lines
from abreast.bench.series import Comparison
from abreast.errors import DataError
from abreast.plan.gradients import parse_format
from abreast.plan.machine import find_machine
from abreast.plan.measured_steps import measured_steps, rows_of, with_measured_shape
from abreast.plan.models import Model, find_model, is_known, model_of, with_tensors
from abreast.plan.predict import Prediction, predictions
from abreast.plan.price import parse_price
from abreast.plan.questions import cost, helps, worth
from abreast.plan.report import Plan
from abreast.plan.same_device import check_same_device
from abreast.plan.setup import Setup, check_rows
from abreast.plan.step_time import step_time
from abreast.stderr import tell

_USUAL_ROWS = 32.0


def make_plan(options: argparse.Namespace) -> Plan:
    for name, number in (("devices", options.devices), ("hosts", options.hosts)):
        if number is not None and number < 1:
            raise DataError(f"--{name} {number} is not allowed", "give a whole number, at least 1")
    measured = None
    if options.measured is not None:
        half = lines.half_line(Path(options.measured))
        if half is not None:
            tell(half)
        measured = measured_steps(options.measured, options.model, options.batch, options.strong)
    setup = setup_of(options, measured)
    if measured is not None:
        check_same_device(options.measured, measured.facts, measured.machine, setup.machine)
    most = setup.machine.devices_per_host if options.devices is None else options.devices
    if options.devices is None and options.hosts is not None:
        most *= options.hosts
    hosts = -(-most // setup.machine.devices_per_host) if options.hosts is None else options.hosts
    _check_even(setup, most, hosts)
    points = predictions(setup, most, hosts)
    epoch = price = None
    if options.price is not None or options.epoch_rows is not None:
        if options.price is None or options.epoch_rows is None:
            raise DataError("the cost of an epoch needs its rows and a price", "give --epoch-rows and --price")
        price = parse_price(options.price)
        epoch = cost(_last_predicted(points), options.epoch_rows, price)
    return Plan(setup, points, worth(points), helps(setup, points[-1]), epoch, price, measured)


def _last_predicted(points: Sequence[Prediction]) -> Prediction:
    """The prediction for the most devices; there is always one for a single device."""
    return [point for point in points if not point.abstains][-1]


def setup_of(options: argparse.Namespace, measured: Comparison | None = None) -> Setup:
    model = _model(options, measured)
    if options.machine is None:
        hint = (
            "give `--machine NAME`, or a JSON file that `abreast machine` wrote; `abreast plan --list` lists the names"
        )
        raise DataError("no machine is given", hint)
    machine = find_machine(options.machine)
    rows = options.batch
    if rows is None:
        rows = _USUAL_ROWS if measured is None else rows_of(measured)
    check_rows(rows)
    return Setup(
        model,
        machine,
        step_time(options, model, machine, rows, measured),
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
    """The model of the options, or a model that ships with abreast; measured tensors replace its own."""
    if options.parameters is not None:
        if options.model is not None and is_known(options.model):
            raise _contradiction(find_model(options.model), options.parameters)
        return model_of(options.parameters, options.tensors, options.model or "the model")
    found = None
    if measured is not None:
        name = options.model or str(measured.facts["model"])
        found = with_measured_shape(find_model(name) if is_known(name) else None, measured)
    if found is None and options.model is None:
        raise DataError(
            "no model is given",
            "give `--model resnet50`, or `--parameters 25.6e6`; `abreast plan --list` lists the models",
        )
    model = found or find_model(options.model)
    return model if options.tensors is None else with_tensors(model, options.tensors)


def _contradiction(model: Model, num_parameters: float) -> DataError:
    return DataError(
        f"{model.name} has {model.num_parameters:,.0f} parameters, and --parameters says {num_parameters:,.15g}",
        "leave out --model for a model of your own, or --parameters for the model that ships",
    )


def _check_even(setup: Setup, num_devices: int, num_hosts: int) -> None:
    """Raise `DataError` for numbers that do not fit, with the nearest number of devices that fits."""
    per_host = setup.machine.devices_per_host
    if num_devices % num_hosts:
        near = min(per_host, max(1, round(num_devices / num_hosts))) * num_hosts
        raise DataError(
            f"{num_devices} devices on {num_hosts} hosts, with {per_host} each",
            f"give each host the same number, for example {near} devices in all",
        )
    setup.check_devices(num_devices, num_hosts)
