"""`abreast bench` as a user types it: options into cases, lines into a table and a report.

Imports `cases`, `run`, `series`, `table`; `report` where one is asked for.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abreast import provenance
from abreast.backend.registry import BACKENDS, installed, require
from abreast.bench import cases, lines, table
from abreast.bench.case_file import read_requests
from abreast.bench.cases import Case, Cell, Request
from abreast.bench.run import Listener, key_of, measure, measurements, missing
from abreast.bench.series import comparisons, read_predictions
from abreast.errors import DataError, DeviceError
from abreast.hardware import CPU_DEVICES, list_devices
from abreast.stdout import say
from abreast.units import counted
from abreast.whole_file import writable


def bench(options: argparse.Namespace) -> int:
    """Measure what is not yet measured, print it, and write the report; gives the exit code, 1 where something failed."""
    if not options.models and not options.cases and options.report is None:
        raise DataError("nothing to do", "name a model, as in `abreast bench mlp`, or a folder for --report")
    output = writable(options.output)
    predicted = read_predictions(Path(options.predicted)) if options.predicted else []
    known = measurements(output)
    for half in (lines.half_line(Path(path)) for path in (output, options.predicted) if path):
        if half is not None:
            _say(half)
    cells = cells_of(options)
    _check_report(options)
    if not cells and not known:
        raise DataError(f"there are no measurements in {options.output}", "measure first, or name their file with -o")
    failures = _measured(options, output, known, cells)
    found = measurements(output)
    asked = {key_of(cell.case.key(side)) for cell in cells for side in cell.sides}
    shown = [line for line in found if key_of(line["case"]) in asked and line["machine"] == provenance.machine()]
    if shown:
        say(table.report(comparisons(shown, predicted)))
    if options.report is not None:
        _report(options, found, predicted)
    for failure in failures:
        _say(f"failed: {failure.splitlines()[0]}")
    return 1 if failures else 0


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """Everything that is asked for, each once; raises `AbreastError` for what cannot be meant, before anything runs."""
    _check_counts(options)
    if not options.models and not options.cases:
        return []
    most, simulated = _devices(options)
    devices = cases.counts(options.devices) if options.devices else cases.doubling(most)
    defaults = Request(
        model="",
        backends=_backends(options.backend),
        devices=devices,
        batch=options.batch,
        global_batch=options.global_batch,
        precision=tuple(options.precision.split(",")),
        input=options.input,
        input_shape=cases.shape_of(options.input_shape) if options.input_shape else None,
        variants=tuple(options.variant),
        against=tuple(options.against.split(",")) if options.against else (),
    )
    requests = [Request(**vars(defaults) | {"model": model}) for model in options.models]
    if options.cases:
        requests += read_requests(Path(options.cases), defaults)
    settings = {"simulated": simulated, "rounds": options.rounds, "steps": options.steps, "warm_up": options.warm_up}
    found: dict[Case, Cell] = {}
    absent: dict[str, None] = {}
    for request in requests:
        _check_there(request, most, simulated)
        for cell in request.cells(**settings):
            found.setdefault(cell.case, cell)
        absent |= dict.fromkeys(request.absent())
    for words in absent:
        _say(words)
    return list(found.values())


def _check_counts(options: argparse.Namespace) -> None:
    for name, least in (("rounds", 1), ("steps", 1), ("warm_up", 1), ("cpu_devices", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise DataError(f"--{name.replace('_', '-')} {value}", f"give a whole number, at least {least}")
    if not options.timeout > 0:
        raise DataError(f"--timeout {options.timeout:g}", "give seconds above 0")


def _devices(options: argparse.Namespace) -> tuple[int, bool]:
    """How many devices there are, and whether they are simulated."""
    if options.cpu_devices is not None:
        return options.cpu_devices, True
    found = list_devices()
    return len(found), CPU_DEVICES in os.environ and found[0].kind == "cpu"


def _check_there(request: Request, most: int, simulated: bool) -> None:
    if max(request.devices) > most:
        hint = "raise --cpu-devices" if simulated else "simulate them with --cpu-devices N, or ask for fewer"
        raise DeviceError(f"{max(request.devices)} devices asked for, and there are {most}", hint)
    for backend in request.backends:
        if backend in BACKENDS:
            require(backend)


def _backends(text: str | None) -> tuple[str, ...]:
    if text:
        return tuple(text.split(","))
    set_ = os.environ.get("KERAS_BACKEND")
    if set_:
        return (set_,)
    there = installed()
    if not there:
        raise DataError("no backend is installed", 'pip install "abreast[jax]"')
    return there[:1]


def _measured(
    options: argparse.Namespace, output: Path, known: list[dict[str, Any]], cells: Sequence[Cell]
) -> list[str]:
    left = list(cells) if options.again else missing(cells, known)
    done = sum(len(cell.sides) for cell in cells) - sum(len(cell.sides) for cell in left)
    if done:
        _say(f"{counted(done, 'measurement')} of this in {options.output} already; --again measures them anew")
    if not left:
        return []
    status = _Status()
    try:
        return measure(left, output, Listener(status.now, status.done), options.timeout)
    except KeyboardInterrupt:
        status.end()
        kept = f"what was measured is in {options.output}" if output.exists() else "nothing was measured yet"
        _say(f"stopped; {kept}\nhint: the same command goes on behind it")
        raise
    finally:
        status.end()


def _check_report(options: argparse.Namespace) -> None:
    """Find out what a report needs before the minutes that measuring takes."""
    if options.report is not None:
        folder = Path(options.report).absolute()
        there = next(each for each in (folder, *folder.parents) if os.path.exists(each))
        if not there.is_dir():
            what = "it" if there == folder else there
            raise DataError(f"--report {options.report}: {what} is a file", "give a folder, or the name of a new one")
        if not os.access(there, os.W_OK | os.X_OK):
            hint = "give a folder of yours, or a new one"
            raise DataError(f"--report {options.report}: no permission in {there}", hint)
    if options.png:
        from abreast.bench.report import drawing_browser

        if options.report is None:
            raise DataError("--png draws the figures of a report", "give --report FOLDER, too")
        drawing_browser()


def _report(options: argparse.Namespace, found: list[dict[str, Any]], predicted: list[dict[str, Any]]) -> None:
    from abreast.bench.report import write_report

    for file in write_report(comparisons(found, predicted), Path(options.report), png=options.png):
        _say(f"wrote {file}")


def _say(text: str) -> None:
    print(f"abreast: {text}", file=sys.stderr, flush=True)


class _Status:
    """What goes on, on stderr: on a terminal one line that changes, elsewhere only what is done."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._width = 0

    def now(self, text: str) -> None:
        if self._terminal:
            print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(text)

    def done(self, text: str) -> None:
        self.end()
        _say(text)

    def end(self) -> None:
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr)
        self._width = 0
