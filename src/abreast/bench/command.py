"""`abreast bench`: its options, the table that it prints, and the report that it writes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from abreast import provenance
from abreast.bench import lines, table
from abreast.bench.cases import Cell
from abreast.bench.from_options import cells_of
from abreast.bench.run import ProgressListener, key_of, measure, measurements, missing
from abreast.bench.series import comparisons, read_predictions
from abreast.errors import DataError
from abreast.options import add_option
from abreast.stderr import StatusLine, tell
from abreast.stdout import say
from abreast.units import counted
from abreast.whole_file import writable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="*",
        help="a model of Keras Applications, or alexnet, cifar10, convnet, mlp, tiny, transformer, or module:function",
    )
    parser.add_argument("--cases", metavar="FILE", help="more cases, as a JSON list of objects")
    parser.add_argument("--backend", metavar="NAMES", help="jax, tensorflow, torch, or several with commas")
    parser.add_argument(
        "--devices", metavar="COUNTS", help="numbers of devices, as 1,2,4 or 1-4 (default: 1, 2, 4, ... and all)"
    )
    add_option(parser, "--cpu-devices", metavar="N", type=int, help="simulate up to N devices on the CPU")
    parser.add_argument("--batch", metavar="N", type=int, help="rows per device (default: the model's)")
    add_option(parser, "--global-batch", metavar="N", type=int, help="rows in all, on any number of devices")
    parser.add_argument(
        "--precision", metavar="KINDS", default="float32", help="float32, bfloat16, float16 (default: float32)"
    )
    parser.add_argument(
        "--input",
        metavar="SOURCE",
        default="host",
        help="host or device (noise that is made there), a folder of records, or module:function (default: host)",
    )
    add_option(parser, "--input-shape", metavar="SIZES", help="shape of one row, as 32,32,3 (default: the model's)")
    parser.add_argument(
        "--variant",
        metavar="SETTINGS",
        action="append",
        default=[],
        help="measure abreast again with settings, as prefetch=0,batch_norm=local",
    )
    parser.add_argument(
        "--against", metavar="RIVALS", help="keras, native, or both with a comma, in turns with abreast"
    )
    parser.add_argument("--rounds", metavar="N", type=int, default=5, help="turns of each side (default: 5)")
    parser.add_argument(
        "--steps", metavar="N", type=int, help="timed steps per turn (default: steps for half a second)"
    )
    add_option(parser, "--warm-up", metavar="N", type=int, default=3, help="steps dropped in each turn (default: 3)")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=1800.0,
        help="limit for all sides of one case (default: 1800)",
    )
    add_option(
        parser,
        "--output",
        ("-o",),
        metavar="FILE",
        default="bench.jsonl",
        help="add the lines to FILE (default: bench.jsonl)",
    )
    parser.add_argument("--again", action="store_true", help="measure again the cases that FILE has")
    parser.add_argument("--report", metavar="FOLDER", help="write a page and figures of all lines in FILE")
    parser.add_argument("--png", action="store_true", help="also write figures as PNG, drawn by a headless browser")
    parser.add_argument("--predicted", metavar="FILE", help="predictions to draw beside the measurements")


def run(options: argparse.Namespace) -> int:
    """Measure the missing cases, print a table, and write the report. The exit code is 1 if anything failed."""
    if not options.models and not options.cases and options.report is None:
        raise DataError("nothing to do", "name a model, as in `abreast bench mlp`, or a folder for --report")
    output = writable(options.output)
    predicted = read_predictions(Path(options.predicted)) if options.predicted else []
    known = measurements(output)
    for half in (lines.half_line(Path(path)) for path in (output, options.predicted) if path):
        if half is not None:
            tell(half)
    cells = cells_of(options, tell)
    _check_report(options)
    if not cells and not known:
        raise DataError(f"there are no measurements in {options.output}", "measure first, or give another file with -o")
    failures = _measured(options, output, known, cells)
    found = measurements(output)
    asked = {key_of(cell.case.key(side)) for cell in cells for side in cell.sides}
    shown = [line for line in found if key_of(line["case"]) in asked and line["machine"] == provenance.machine()]
    if shown:
        say(table.report(comparisons(shown, predicted)))
    if options.report is not None:
        _report(options, found, predicted)
    for failure in failures:
        tell(f"failed: {failure.splitlines()[0]}")
    return 1 if failures else 0


def _measured(
    options: argparse.Namespace, output: Path, known: list[dict[str, Any]], cells: Sequence[Cell]
) -> list[str]:
    left = list(cells) if options.again else missing(cells, known)
    done = sum(len(cell.sides) for cell in cells) - sum(len(cell.sides) for cell in left)
    if done:
        tell(f"{counted(done, 'measurement')} already in {options.output}; --again measures again")
    if not left:
        return []
    status = _Status()
    try:
        return measure(left, output, ProgressListener(status.now, status.done), options.timeout)
    except KeyboardInterrupt:
        status.end()
        kept = f"the measurements so far are in {options.output}" if output.exists() else "nothing was measured yet"
        tell(f"stopped; {kept}\nhint: the same command continues after them")
        raise
    finally:
        status.end()


def _check_report(options: argparse.Namespace) -> None:
    """Raise `DataError` for a report that cannot be written, before minutes of measuring."""
    if options.report is not None:
        folder = Path(options.report).absolute()
        there = next(each for each in (folder, *folder.parents) if os.path.exists(each))
        if not there.is_dir():
            what = "it" if there == folder else there
            raise DataError(f"--report {options.report}: {what} is a file", "give a folder, or the name of a new one")
        if not os.access(there, os.W_OK | os.X_OK):
            hint = "give a folder that you may write to, or a new one"
            raise DataError(f"--report {options.report}: no permission in {there}", hint)
    if options.png:
        from abreast.bench.report import drawing_browser

        if options.report is None:
            raise DataError("--png draws the figures of a report", "give --report FOLDER too")
        drawing_browser()


def _report(options: argparse.Namespace, found: list[dict[str, Any]], predicted: list[dict[str, Any]]) -> None:
    from abreast.bench.report import write_report

    for file in write_report(comparisons(found, predicted), Path(options.report), png=options.png):
        tell(f"wrote {file}")


class _Status:
    """Progress on stderr: on a terminal one line that changes, elsewhere only finished work."""

    def __init__(self) -> None:
        self._line = StatusLine()

    def now(self, text: str) -> None:
        self._line.show(text)

    def done(self, text: str) -> None:
        self.end()
        tell(text)

    def end(self) -> None:
        self._line.clear()
