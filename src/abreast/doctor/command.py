"""`abreast doctor`: its options, the report that it prints, and the files that it writes."""

from __future__ import annotations

import argparse

from abreast import run_command
from abreast.doctor import script
from abreast.doctor.report import report
from abreast.errors import AbreastError, DataError
from abreast.options import CommandParser
from abreast.stderr import fail, tell
from abreast.stdout import say
from abreast.whole_file import writable


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--steps", metavar="N", type=int, default=30, help="steps as given to measure (default: 30)")
    parser.add_argument("--html", metavar="FILE", help="also write the diagnosis as a page")
    parser.add_argument("--json", metavar="FILE", help="also write the diagnosis as JSON")
    run_command.add_script_arguments(parser)


def run(options: argparse.Namespace) -> int:
    json_file, html_file = (None if path is None else writable(path) for path in (options.json, options.html))
    if json_file is not None and json_file == html_file:
        raise DataError(f"--json and --html both write to {options.json}", "give two files")
    code, diagnosis = script.diagnose_script(
        options.script, options.arguments, run_command.run_options(options), module=options.module, steps=options.steps
    )
    if diagnosis is None:
        return code
    say(report(diagnosis))
    if len(diagnosis.devices) > 1:
        tell(f"is it exact? abreast check {options.script}")
    from abreast.doctor.page import write_page  # imports NumPy, which a script may want to configure first

    files = ((script.write_json, json_file, options.json), (write_page, html_file, options.html))
    for write, path, shown in files:
        try:
            if path is not None:
                write(diagnosis, path)
                tell(f"wrote {shown}")
        except AbreastError as error:  # the other file can still be written
            fail(error)
            code = 2
    return code
