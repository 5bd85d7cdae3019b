"""`abreast records`: one function per action."""

from __future__ import annotations

import argparse
import json

from abreast.stdout import say


def run(options: argparse.Namespace) -> int:
    actions = {"info": _info, "show": _show, "verify": _verify, "extract": _extract}
    return actions[options.action](options)


def _info(options: argparse.Namespace) -> int:
    from abreast.records.reading.info import content, report

    say(json.dumps(content(options.folder), indent=2) if options.json else report(options.folder))
    return 0


def _show(options: argparse.Namespace) -> int:
    from abreast.records.loading.sheet import write_sheet

    say(f"{options.output}: {write_sheet(options.folder, options.output, options.seed)} samples")
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
