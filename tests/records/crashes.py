"""Packers that die, fail or lose power at a chosen call, and the files that they leave.

`python -m tests.records.crashes FOLDER` kills a packer at each of its calls, before, after and in the middle of it, and
prints the results as JSON. It forks, which pytest's own process, with its threads, should not do.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from abreast.durable_files import Files
from abreast.errors import DataError
from abreast.records import Records, verify
from abreast.records.format.manifest import LOCK, PACKING
from tests.records.pieces import contents, small_pack

CALLS = ("make_folder", "create", "write", "sync", "close", "rename", "remove", "sync_folder")
COUNT = 5


def packed(folder: Path, files: Files | None = None) -> None:
    """A small data set of some shards, by way of these calls."""
    with mock.patch("abreast.records.packing.packer.Files", return_value=files or Files()):
        small_pack(folder, COUNT)


class Watched(Files):
    """Counts calls from 1 and asks `at_call(name, number, do, arguments)` to make each."""

    num_calls = 0

    def at_call(self, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return do(*arguments)


def _watch(name: str) -> Callable[..., Any]:
    def call(self: Watched, *arguments: Any) -> Any:
        self.num_calls += 1
        return self.at_call(name, lambda *given: getattr(Files, name)(self, *given), arguments)

    return call


for _name in CALLS:
    setattr(Watched, _name, _watch(_name))


class Dying(Watched):
    """SIGKILL at call `at`."""

    def __init__(self, at: int, how: str) -> None:
        self.at, self.how = at, how

    def at_call(self, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if self.num_calls != self.at:
            return do(*arguments)
        if self.how == "half" and name == "write":
            do(arguments[0], arguments[1][: len(arguments[1]) // 2])
        elif self.how == "after":
            do(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class Failing(Watched):
    """An error of the system at call `at`, and at all later ones that need room if it `stays`."""

    def __init__(self, at: int, number: int = errno.ENOSPC, stays: bool = False) -> None:
        self.at, self.number, self.stays = at, number, stays
        self.fired = False

    def at_call(self, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        later = self.stays and self.num_calls > self.at and name in ("create", "write", "sync")
        if self.num_calls == self.at or later:
            self.fired = True
            raise OSError(self.number, os.strerror(self.number), str(arguments[0]))
        return do(*arguments)


class Stingy(Watched):
    """Writes one byte in a hundred at a time."""

    def at_call(self, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if name == "write":
            return do(arguments[0], arguments[1][: max(1, len(arguments[1]) // 100)])
        return do(*arguments)


def num_calls(folder: Path) -> int:
    """How many calls one packer makes."""
    watched = Watched()
    packed(folder, watched)
    return watched.num_calls


def state(folder: Path, whole: dict[str, bytes]) -> str:
    """`whole`, `refused`, or a description of the fault."""
    try:
        with Records(folder) as records:
            opened = len(list(records))
    except DataError:
        return "refused"
    left = {name: data for name, data in contents(folder).items() if name not in (LOCK, PACKING)}
    if opened == COUNT and left == whole and not verify(folder):
        return "whole"
    return "half valid"


def kill_everywhere(place: Path) -> dict[str, Any]:
    """The outcome of a kill at each call, and whether a second packer mended it."""
    packed(place / "whole")
    whole = contents(place / "whole")
    total = num_calls(place / "counted")
    states: Counter[str] = Counter()
    mended = kills = 0
    for how in ("before", "half", "after"):
        for at in range(1, total + 1):
            folder = place / f"{how}-{at}"
            kills += _killed(folder, at, how)
            states[state(folder, whole)] += 1
            packed(folder)
            mended += contents(folder) == whole
            shutil.rmtree(folder)
    return {"calls": total, "kills": kills, "mended": mended, "states": dict(states)}


def _killed(folder: Path, at: int, how: str) -> bool:
    child = os.fork()
    if child == 0:
        packed(folder, Dying(at, how))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@dataclass
class _File:
    content: bytes = b""
    lasting: bytes = b""


@dataclass
class PowerLoss(Watched):
    """Keeps the parts of a packer's files that would survive a power cut: synced content, and names in synced folders."""

    syncs: bool = True
    names: dict[str, _File] = field(default_factory=dict)
    pending: list[tuple[str, str, _File | None]] = field(default_factory=list)
    open_files: dict[int, _File] = field(default_factory=dict)
    after_call: Callable[[PowerLoss], None] = lambda _: None

    def at_call(self, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        result = do(*arguments)
        match name:
            case "create":
                self.open_files[result] = _File()
                self.pending.append(("add", arguments[0].name, self.open_files[result]))
            case "write":
                self.open_files[arguments[0]].content += bytes(arguments[1][:result])
            case "sync" if self.syncs:
                self.open_files[arguments[0]].lasting = self.open_files[arguments[0]].content
            case "rename":
                moved = self._now()[arguments[0].name]
                self.pending.append((f"rename {arguments[0].name}", arguments[1].name, moved))
            case "remove" if arguments[0].name in self._now():
                self.pending.append(("remove", arguments[0].name, None))
            case "sync_folder":
                self.names, self.pending = self._now(), []
        self.after_call(self)
        return result

    def _now(self) -> dict[str, _File]:
        return self._with(self.pending)

    def _with(self, changes: list[tuple[str, str, _File | None]]) -> dict[str, _File]:
        names = dict(self.names)
        for what, name, file in changes:
            if what.startswith("rename "):
                names.pop(what.removeprefix("rename "), None)
            names.pop(name, None)
            if file is not None:
                names[name] = file
        return names

    def states(self) -> Iterator[dict[str, bytes]]:
        """The possible folders after a power cut at this moment: each change of a name may have survived, alone or not."""
        choices = [self.pending[:count] for count in range(len(self.pending) + 1)]
        choices += [[change] for change in self.pending[1:]]
        for changes in choices:
            names = self._with(changes)
            for spoil in (lambda file: file.lasting, lambda file: file.content, _torn, _zeros):
                yield {name: spoil(file) for name, file in names.items()}


def _torn(file: _File) -> bytes:
    return file.lasting if file.lasting == file.content else file.content[: len(file.content) // 2]


def _zeros(file: _File) -> bytes:
    return file.lasting if file.lasting == file.content else bytes(len(file.content))


def power_losses(folder: Path, syncs: bool = True) -> list[dict[str, bytes]]:
    """Every different state of the folder that a power cut can leave, at any call of a packer."""
    found: dict[tuple[tuple[str, bytes], ...], dict[str, bytes]] = {}

    def keep(loss: PowerLoss) -> None:
        for names in loss.states():
            found.setdefault(tuple(sorted(names.items())), names)

    packed(folder, PowerLoss(syncs=syncs, after_call=keep))
    return list(found.values())


if __name__ == "__main__":
    print(json.dumps(kill_everywhere(Path(sys.argv[1]))))
