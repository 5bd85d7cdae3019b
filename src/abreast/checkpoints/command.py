"""`abreast checkpoints`: its actions with their options, and one function per action. Loads no NumPy before it runs."""

from __future__ import annotations

import argparse
import json

from abreast.errors import CheckpointError
from abreast.options import add_command, add_option
from abreast.stdout import say

_ACTIONS = {
    "list": "list the checkpoints, oldest first (the default)",
    "verify": "check every byte; the exit code is 1 if a checkpoint is damaged",
    "prune": "remove all but the newest ones; the newest good one stays, and the last state of each fit that has ended",
    "export": "write the model of a checkpoint as a .keras file",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", metavar="FOLDER", help="a folder that `abreast.Checkpoint` or `--checkpoint` wrote to"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list, as list and verify do")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action")
    for name, about in _ACTIONS.items():
        action = add_command(actions, name, about)
        if name == "list":
            _add_json(action, "print a JSON list; sizes are in bytes")
        if name == "verify":
            _add_json(action, "print a JSON list")
        if name == "prune":
            action.add_argument("--keep", metavar="N", type=int, required=True, help="how many stay")
        if name == "export":
            action.add_argument("name", metavar="NAME", nargs="?", help="a checkpoint; by default the newest good one")
            add_option(action, "--output", ("-o",), metavar="FILE", default="model.keras", help="default: model.keras")


def _add_json(action: argparse.ArgumentParser, about: str) -> None:
    # Without a default, this does not undo a `--json` before the action.
    action.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=about)


def run(options: argparse.Namespace) -> int:
    if options.json and options.action not in (None, "list", "verify"):
        raise CheckpointError(f"{options.action} prints no JSON", "leave out --json")
    actions = {"list": _list, "verify": _verify, "prune": _prune, "export": _export}
    return actions[options.action or "list"](options)


def _list(options: argparse.Namespace) -> int:
    from abreast.checkpoints.report import facts, table

    found = facts(options.folder)
    say(json.dumps(found, indent=2) if options.json else table(options.folder, found))
    return 0


def _verify(options: argparse.Namespace) -> int:
    from abreast.checkpoints.report import verified

    found = verified(options.folder)
    if not found:
        raise CheckpointError(f"{options.folder} has no checkpoints", "give the folder that a training wrote them to")
    if options.json:
        say(json.dumps(found, indent=2))
    else:
        say("\n".join(f"{each['name']}: {each['error'] or 'every byte is as it was written'}" for each in found))
    return 0 if all(each["good"] for each in found) else 1


def _prune(options: argparse.Namespace) -> int:
    from abreast.checkpoints.folder import prune

    removed = prune(options.folder, options.keep)
    say("\n".join(f"removed {name}" for name in removed) or "nothing to remove")
    return 0


def _export(options: argparse.Namespace) -> int:
    from abreast.checkpoints.export import export
    from abreast.whole_file import writable

    target = writable(options.output)
    name = export(options.folder, target, options.name)
    say(f"{options.output}: the model of {name}")
    return 0
