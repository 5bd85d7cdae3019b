"""The parser of every command, and the functions that add its actions and options: one spelling in the help, others hidden."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from abreast.stdout import say

_KINDS: dict[Any, tuple[str, str]] = {int: ("whole number", "4"), float: ("number", "2.5")}


class CommandParser(argparse.ArgumentParser):
    """A parser that reports an unknown option with the usage of its own command and the most similar options."""

    script_follows = False  # whether a script and its own options come after the options

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # Otherwise argparse lets the parser of all commands report words that the parser of one command does not know.
        self._typed = list(sys.argv[1:] if args is None else args)
        found, unknown = super().parse_known_args(self._typed, namespace)
        if unknown:
            self._refuse(unknown[0])
        if self.script_follows:
            found.late_option = self._option_among(found.arguments)
        return found, unknown

    def _print_message(self, message: str, file: Any = None) -> None:
        if message and file is sys.stdout:  # argparse says nothing of a full disk
            say(message.removesuffix("\n"))
        else:
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit with 2. An unknown option is reported before a missing argument."""
        if message.startswith("the following arguments are required") and (unknown := self._unknown_option()):
            self._typed = []
            self._refuse(unknown)
        super().error(message)

    def _unknown_option(self) -> str | None:
        words = self._typed[: self._typed.index("--")] if "--" in self._typed else self._typed
        options = (word.partition("=")[0] for word in words if re.match(r"-[^\d.]", word))  # a number is a value
        return next((option for option in options if not self._is_known(option)), None)

    def _is_known(self, option: str) -> bool:
        """Whether this is an option, or a short one with its value, as in `-ofile`."""
        short = "" if option.startswith("--") else option[:2]
        return not self._option_string_actions.keys().isdisjoint((option, short))

    def _option_among(self, words: Sequence[str]) -> str | None:
        """The first long option of this command among the arguments of a script."""
        options = (word.partition("=")[0] for word in words if word.startswith("--"))
        return next((option for option in options if option in self._option_string_actions), None)

    def _refuse(self, word: str) -> NoReturn:
        from abreast.nearest import did_you_mean, nearest

        if not word.startswith("-"):
            self.error(f"unexpected argument {word!r}")
        option = word.partition("=")[0]
        hint = did_you_mean(option, self._long_options())
        if self.script_follows:
            near = f"{hint} " if nearest(option, self._long_options()) else ""
            hint = f"{near}options of the script come after its name, as in `{self.prog} train.py {option}`"
            if option.endswith(".py"):
                hint = f"a file of this name is written ./{option}"
        self.error(f"unknown option {option}\nhint: {hint}")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        if action.option_strings and not arg_string:  # mostly an unset variable of the shell
            self.error(f"{_name(action)} is empty\nhint: give a value, or leave the option out")
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            name, (kind, example) = _name(action), _KINDS.get(action.type, ("valid value", ""))
            hint = f"\nhint: give a {kind}, as in `{name} {example}`" if example else ""
            self.error(f"{name} {arg_string!r} is not a {kind}{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from abreast.nearest import did_you_mean

            hint = self._other_order(value, action.choices) or did_you_mean(str(value), list(map(str, action.choices)))
            name = _name(action)
            what = (
                f"{name} {value!r} is not known" if action.option_strings else f"there is no {name.lower()} {value!r}"
            )
            self.error(f"{what}\nhint: {hint}")

    def _other_order(self, value: str, actions: Iterable[str]) -> str | None:
        """A hint for `checkpoints list FOLDER`, whose folder comes before the action. None if no action was typed."""
        words = list(self._typed)
        other = next((word for word in words if word in actions), None)
        if other is None or value not in words:
            return None
        first, second = words.index(value), words.index(other)
        words[first], words[second] = other, value
        return f"write `{self.prog} {shlex.join(words)}`"

    def _long_options(self) -> list[str]:
        shown = (action for action in self._actions if action.help is not argparse.SUPPRESS)
        return [option for action in shown for option in action.option_strings if option.startswith("--")]


def _name(action: argparse.Action) -> str:
    """An action's name as it is typed."""
    return action.option_strings[0] if action.option_strings else str(action.metavar or action.dest)


def add_command(commands: Any, name: str, about: str) -> CommandParser:
    """Add a command to the result of `add_subparsers`, or an action to a command."""
    parser: CommandParser = commands.add_parser(
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
