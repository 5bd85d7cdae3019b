"""The step time of one device: given, read from a file, measured by bench, or a roofline."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from abreast import plain_json
from abreast.bench.noise import TOO_NOISY
from abreast.bench.series import Comparison
from abreast.errors import DataError
from abreast.plan.machine import Machine
from abreast.plan.measured_steps import at
from abreast.plan.models import Model
from abreast.plan.roofline import StepTime, roofline
from abreast.plan.same_device import check_same_device
from abreast.units import duration

_UNITS = {"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "s": 1.0}
_LONGEST_SECONDS = 3600
# A number without a unit is in seconds. Above ten, the user more likely means milliseconds. Above one, the roofline decides: it
# distinguishes the two even if it is wrong by a factor of ten.
_LONGEST_BARE_SECONDS = 10.0
_MOST_ROOFLINES = 100.0
_EXAMPLE = "as 125ms or 0.125s"
_COLUMNS = ("median", "unit")
_ROWS = ("rows", "images", "samples", "sequences", "examples", "sentences")


def step_time(
    options: argparse.Namespace, model: Model, machine: Machine, rows: float, measured: Comparison | None
) -> StepTime:
    """The step time of the options, else the measured one of one device, else a roofline. Raises `DataError`."""
    if options.step_time is not None and options.step_from is not None:
        raise DataError("the step time is given twice", "give --step-time or --step-from")
    if options.step_time is not None:
        return StepTime(given_seconds(options.step_time, _rough(model, machine, rows, options.precision)), 1.0, "given")
    if options.step_from is not None:
        return _from_file(options.step_from, rows, machine)
    one = at(measured, 1)
    if one is not None:
        noisy = f"; {TOO_NOISY}: {one.noise}" if one.noise else ""
        return StepTime(one.seconds, 1.0, f"measured, {options.measured}{noisy}")
    return roofline(model, machine.device, rows, options.precision)


def given_seconds(text: str, rough_seconds: float | None = None) -> float:
    """Seconds from `125ms`, `0.125s`, or a number of seconds; raises `DataError` for a bare number that is not plausible."""
    unit = next((unit for unit in _UNITS if text.endswith(unit)), None)
    try:
        seconds = float(text.removesuffix(unit or "")) * _UNITS.get(unit or "s", 1.0)
    except ValueError:
        raise DataError(f"--step-time {text}", f"give a number with its unit, {_EXAMPLE}") from None
    if not (math.isfinite(seconds) and seconds > 0):
        raise DataError(f"--step-time {text}", f"give a time above zero, {_EXAMPLE}")
    most = min(_LONGEST_BARE_SECONDS, max(1.0, _MOST_ROOFLINES * (rough_seconds or math.inf)))
    if unit is None and seconds > most:
        rough = "" if rough_seconds is None else f", and a roofline says about {duration(rough_seconds)}"
        hint = f"give --step-time {text}ms, or --step-time {text}s for seconds"
        raise DataError(f"--step-time {text} is {duration(seconds)}{rough}", hint)
    return _checked(seconds)


def _rough(model: Model, machine: Machine, rows: float, precision: str) -> float | None:
    try:
        return roofline(model, machine.device, rows, precision).seconds
    except DataError:
        return None


def _checked(seconds: float) -> float:
    if seconds > _LONGEST_SECONDS:
        raise DataError(f"a step of {seconds:g} s", f"give at most one hour, with its unit, {_EXAMPLE}")
    return seconds


def _from_file(path: str, rows: float, machine: Machine) -> StepTime:
    """The step time in the last line of a file of JSON lines, in seconds or as rows per second."""
    try:
        lines = [line for line in Path(path).read_text().splitlines() if line.strip()]
        line = plain_json.parse(lines[-1])
        value, unit = line["median"], str(line["unit"])
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", "give a file of JSON lines") from None
    except (IndexError, KeyError, TypeError, ValueError):
        hint = f"a measurement is a line of JSON with {' and '.join(_COLUMNS)}, as `abreast bench` writes it"
        raise DataError(f"the last line of {path} is not a measurement", hint) from None
    if not plain_json.positive(value):
        raise DataError(f"{path}: the median of its last line is {value!r}", "it is a number above zero")
    case, measured_on = (_facts(line.get(name)) for name in ("case", "machine"))
    _check_case(path, case, rows)
    check_same_device(path, case, measured_on, machine)
    if unit in ("s", "seconds", "s/step", "seconds/step", "seconds per step"):
        return StepTime(_checked(value), 1.0, f"measured, {path}")
    if unit in ("ms", "ms/step"):
        return StepTime(_checked(value / 1000), 1.0, f"measured, {path}")
    items, _, per = unit.partition("/")
    if per in ("s", "second") and items in _ROWS:
        return StepTime(rows / value, 1.0, f"measured, {path}")
    raise DataError(f"{path}: a step time in {unit!r}", "its unit is s, ms, or rows/s")


def _facts(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _check_case(path: str, facts: dict[str, Any], rows: float) -> None:
    """Raise `DataError` for a line of several devices, or of another number of rows."""
    if facts.get("devices", 1) != 1:
        hint = f"give the line of one device, or the whole file with `--measured {path}`"
        raise DataError(f"the last line of {path} is for {facts['devices']} devices", hint)
    measured = facts.get("rows_per_device", rows)
    if measured != rows:
        hint = f"give `--batch {measured}`, or a line with the rows that are planned"
        raise DataError(f"the last line of {path} is for {measured} rows, and {rows:g} are planned", hint)
