"""The functions with which every command adds its actions and options: one spelling in the help, others that users type too."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


def add_command(commands: Any, name: str, about: str) -> argparse.ArgumentParser:
    """Add a command to what `add_subparsers` gave, or an action to a command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}.", allow_abbrev=False
    )
    return parser


def add_option(parser: argparse.ArgumentParser, name: str, elsewhere: Sequence[str] = (), **settings: Any) -> None:
    """Add an option, its spelling with `_`, and its names in other tools; the help shows the first spelling only."""
    spellings = dict.fromkeys(spelling for each in (name, *elsewhere) for spelling in (each, _underscored(each)))
    hidden = [spelling for spelling in spellings if spelling != name]
    action = parser.add_argument(name, **settings)
    if hidden:
        settings |= {"dest": action.dest, "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        parser.add_argument(*hidden, **settings)


def _underscored(option: str) -> str:
    dashes = "--" if option.startswith("--") else "-"
    return dashes + option.removeprefix(dashes).replace("-", "_")
