"""Writers of files that fail or lose power at a chosen call, for packers and for checkpoints: `CheckpointFiles` has all calls."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abreast.checkpoints.files import CheckpointFiles

CALLS = [
    "make_folder",
    "make_new_folder",
    "create",
    "write",
    "sync",
    "close",
    "rename",
    "remove",
    "remove_folder",
    "sync_folder",
]


class Watched(CheckpointFiles):
    """Counts calls from 1 and asks `at_call(name, do, arguments)` to make each."""

    num_calls = 0

    def at_call(self, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return do(*arguments)


def _watch(name: str) -> Callable[..., Any]:
    def call(self: Watched, *arguments: Any) -> Any:
        self.num_calls += 1
        return self.at_call(name, lambda *given: getattr(CheckpointFiles, name)(self, *given), arguments)

    return call


for _name in CALLS:
    setattr(Watched, _name, _watch(_name))


class Failing(Watched):
    """An error of the system at call `at`, and at all later ones that need room if it `stays`."""

    def __init__(self, at: int, number: int = errno.ENOSPC, stays: bool = False) -> None:
        self.at, self.number, self.stays = at, number, stays
        self.failed = ""

    def at_call(self, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        later = self.stays and self.num_calls > self.at and name in ("make_new_folder", "create", "write", "sync")
        if self.num_calls == self.at or later:
            self.failed = self.failed or name
            raise OSError(self.number, os.strerror(self.number), str(arguments[0]))
        return do(*arguments)


class Stingy(Watched):
    """Writes one byte in a hundred at a time."""

    def at_call(self, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if name == "write":
            return do(arguments[0], arguments[1][: max(1, len(arguments[1]) // 100)])
        return do(*arguments)


@dataclass(eq=False)
class _File:
    content: bytes = b""
    lasting: bytes = b""

    def after_a_cut(self) -> set[bytes]:
        """What may be left: what was synced, all, half, or zeros."""
        if self.lasting == self.content:
            return {self.content}
        return {self.lasting, self.content, self.content[: len(self.content) // 2], bytes(len(self.content))}


@dataclass(eq=False)
class _Folder:
    """Names that are durable, and changes of names that are not: each a dict of names, with None for a removed one."""

    lasting: dict[str, _File | _Folder] = field(default_factory=dict)
    pending: list[dict[str, _File | _Folder | None]] = field(default_factory=list)

    def now(self) -> dict[str, _File | _Folder]:
        return self.with_changes(self.pending)

    def with_changes(self, changes: list[dict[str, _File | _Folder | None]]) -> dict[str, _File | _Folder]:
        names: dict[str, _File | _Folder | None] = dict(self.lasting)
        for change in changes:
            names |= change
        return {name: each for name, each in names.items() if each is not None}

    def after_a_cut(self) -> list[dict[str, _File | _Folder]]:
        """The names that may be left: after the first changes, or after a single one that overtook the others."""
        choices = [self.pending[:count] for count in range(len(self.pending) + 1)]
        choices += [[change] for change in self.pending[1:]]
        return [self.with_changes(changes) for changes in choices]


Tree = dict[str, Any]  # bytes of a file, or the tree of a folder, by name


@dataclass
class PowerLoss(Watched):
    """Keeps what would survive a power cut of a folder, which holds what is durable, or is not there yet."""

    folder: Path
    no_op: tuple[str, ...] = ()  # calls that do nothing, for controls
    after_call: Callable[[PowerLoss], None] = lambda _: None
    root: _Folder = field(default_factory=_Folder)
    open_files: dict[int, _File] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = _durable(self.folder)

    def at_call(self, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        result = do(*arguments)
        if name not in self.no_op:
            self._note(name, arguments, result)
        self.after_call(self)
        return result

    def _note(self, name: str, arguments: tuple[Any, ...], result: Any) -> None:
        match name:
            case "make_new_folder":
                self._above(arguments[0]).pending.append({arguments[0].name: _Folder()})
            case "create":
                self.open_files[result] = _File()
                self._above(arguments[0]).pending.append({arguments[0].name: self.open_files[result]})
            case "write":
                self.open_files[arguments[0]].content += bytes(arguments[1][:result])
            case "sync":
                self.open_files[arguments[0]].lasting = self.open_files[arguments[0]].content
            case "rename":
                above = self._above(arguments[0])
                above.pending.append({arguments[0].name: None, arguments[1].name: above.now()[arguments[0].name]})
            case "remove" | "remove_folder":
                self._above(arguments[0]).pending.append({arguments[0].name: None})
            case "sync_folder" if arguments[0] not in self.folder.parents:
                folder = self._folder(arguments[0])
                folder.lasting, folder.pending = folder.now(), []

    def _above(self, path: Path) -> _Folder:
        return self._folder(path.parent)

    def _folder(self, path: Path) -> _Folder:
        found = self.root if path == self.folder else self.root.now()[path.name]
        assert isinstance(found, _Folder)
        return found

    def states(self) -> Iterator[Tree]:
        """The possible contents of the folder after a power cut at this moment."""
        yield from _trees(self.root)


def _trees(folder: _Folder) -> Iterator[Tree]:
    for names in folder.after_a_cut():
        choices = [list(_trees(each)) if isinstance(each, _Folder) else each.after_a_cut() for each in names.values()]
        for chosen in itertools.product(*choices):
            yield dict(zip(names, chosen, strict=True))


def _durable(path: Path) -> _Folder:
    folder = _Folder()
    for each in path.iterdir() if path.exists() else ():
        folder.lasting[each.name] = _durable(each) if each.is_dir() else _File(each.read_bytes(), each.read_bytes())
    return folder


def frozen(tree: Tree) -> tuple[Any, ...]:
    return tuple(sorted((name, frozen(each) if isinstance(each, dict) else each) for name, each in tree.items()))


def power_losses(
    folder: Path, write: Callable[[Path, CheckpointFiles], None], no_op: tuple[str, ...] = ()
) -> list[Tree]:
    """Every different content of the folder that a power cut can leave, at any call of a writer."""
    found: dict[tuple[Any, ...], Tree] = {}

    def keep(loss: PowerLoss) -> None:
        for tree in loss.states():
            found.setdefault(frozen(tree), tree)

    write(folder, PowerLoss(folder, no_op, keep))
    return list(found.values())


def put(folder: Path, tree: Tree) -> Path:
    """Make a folder with this content, in place of what it had."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, each in tree.items():
        if isinstance(each, dict):
            put(folder / name, each)
        else:
            (folder / name).write_bytes(each)
    return folder
