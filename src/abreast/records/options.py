"""The actions of `abreast records` and their options. Loads no NumPy, which other commands do not need."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

_ACTIONS = {
    "info": "describe the data set: counts, sizes, columns, settings",
    "show": "write a picture of samples as training sees them",
    "verify": "check every byte; the exit code is 1 if one is damaged",
    "extract": "write the images as files, and their columns as lines of JSON",
}


def add_actions(
    parser: argparse.ArgumentParser,
    add_command: Callable[[Any, str, str], argparse.ArgumentParser],
    add: Callable[..., None],
) -> None:
    """All actions, each as `options.action`; `add` also takes the spellings of an option with `_`."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    for name, about in _ACTIONS.items():
        action = add_command(actions, name, about)
        action.add_argument("folder", metavar="DEST", help="a folder that `abreast pack` made")
        if name == "info":
            action.add_argument("--json", action="store_true", help="print the manifest's content as JSON")
        if name == "show":
            add(action, "--output", ("-o",), metavar="FILE", default="sheet.png", help="default: sheet.png")
            action.add_argument(
                "--seed", metavar="N", type=int, default=0, help="seed that draws the samples and views (default: 0)"
            )
        if name == "extract":
            action.add_argument("target", metavar="FOLDER", help="an empty folder, or a new one")
