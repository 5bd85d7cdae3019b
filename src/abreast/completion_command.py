"""`abreast completion`: prints a script for a shell, made by shtab from the options of all commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from abreast.errors import AbreastError
from abreast.installing import install_command
from abreast.stdout import say

SHELLS = ("bash", "zsh", "tcsh")
_PATHS = ("FILE", "FOLDER", "SCRIPT", "SOURCE", "DEST")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ModuleNotFoundError:
        raise AbreastError("shtab is not installed, which writes the script", install_command("completion")) from None

    from abreast.cli import all_commands

    parser = all_commands()
    for action in _actions(parser):
        if action.metavar in _PATHS:
            action.complete = shtab.FILE
    say(shtab.complete(parser, shell=options.shell).rstrip("\n"))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """The arguments of a parser and of all commands below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
