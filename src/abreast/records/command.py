"""`abreast records`: its actions with their options, and one function per action. Loads no NumPy before it runs."""

from __future__ import annotations

import argparse
import json

from abreast.options import add_command, add_option
from abreast.stdout import say
from abreast.units import counted

_ACTIONS = {
    "info": "describe the data set: counts, sizes, columns, settings",
    "show": "write a picture of samples, with their keys and labels",
    "verify": "check every byte; the exit code is 1 if one is damaged",
    "extract": "write the images as files, and their columns as lines of JSON",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    for name, about in _ACTIONS.items():
        action = add_command(actions, name, about)
        action.add_argument("folder", metavar="DEST", help="a folder that `abreast pack` made")
        if name == "info":
            action.add_argument("--json", action="store_true", help="print the manifest's content as JSON")
        if name == "show":
            add_option(action, "--output", ("-o",), metavar="FILE", default="sheet.png", help="default: sheet.png")
            action.add_argument(
                "--seed", metavar="N", type=int, default=0, help="seed that draws the samples and views (default: 0)"
            )
            action.add_argument("--count", metavar="N", type=int, help="number of samples (default: 24; 6 with views)")
            action.add_argument("--size", metavar="N", type=int, help="side of each picture in pixels (default: 128)")
            action.add_argument(
                "--label",
                metavar="COLUMN",
                help="column to show below the key (default: label, or the only one of words)",
            )
            action.add_argument(
                "--augment", action="store_true", help="add views of each sample as training draws them"
            )
        if name == "extract":
            action.add_argument("target", metavar="FOLDER", help="an empty folder, or a new one")


def run(options: argparse.Namespace) -> int:
    actions = {"info": _info, "show": _show, "verify": _verify, "extract": _extract}
    return actions[options.action](options)


def _info(options: argparse.Namespace) -> int:
    from abreast.records.reading.info import content, report

    say(json.dumps(content(options.folder), indent=2) if options.json else report(options.folder))
    return 0


def _show(options: argparse.Namespace) -> int:
    from abreast.records.loading.sheet import SIZE, write_sheet

    size = SIZE if options.size is None else options.size
    views = {"size": size, "augment": options.augment, "label": options.label}
    shown = write_sheet(options.folder, options.output, options.seed, count=options.count, **views)
    say(f"{options.output}: {counted(shown, 'sample')}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from abreast.records.reading.verifier import verify

    problems = verify(options.folder)
    say("\n".join(problems) or f"{options.folder}: every byte is as it was written")
    return 1 if problems else 0


def _extract(options: argparse.Namespace) -> int:
    from abreast.records.reading.extractor import extract

    say(f"{options.target}: {extract(options.folder, options.target):,} images")
    return 0
