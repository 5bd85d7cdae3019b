"""Faults in the file calls of a save, in the process of the script: a kill, a power cut or a full disk at the k-th call.

The calls are the methods of `CheckpointFiles`, so this needs no tool of the system. A power cut is a kill, followed by the loss
of everything that was not synced to the disk: the ends of files, and half of the new names.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from abreast.checkpoints.files import CheckpointFiles
from abreast.checkpoints.writer import Writer
from abreast.replacing import replaced
from abreast.torture.notes import NoteWriter

KINDS = ("kill", "power", "full")
_CALLS = (
    "make_folder",
    "make_new_folder",
    "create",
    "write",
    "sync",
    "begin_sync",
    "close",
    "rename",
    "remove",
    "remove_folder",
    "sync_folder",
)


@dataclass(frozen=True)
class FilePlan:
    """A fault before call `call` of save `save` of a process, or of the first later save with that many calls.

    Both are counted from 1. A save that removes an older checkpoint has more calls.

    `kind`: one of `KINDS`; "full" counts the writes alone.
    """

    kind: str
    save: int
    call: int
    seed: int

    def __str__(self) -> str:
        what = {"kill": "SIGKILL", "power": "a power cut", "full": "ENOSPC"}[self.kind]
        calls = "write" if self.kind == "full" else "file call"
        return f"{what} at {calls} {self.call} of a save"


class FileFaults:
    """Counts the file calls of each save, and causes the planned fault."""

    def __init__(self, notes: NoteWriter, plan: FilePlan | None) -> None:
        self._notes, self._plan = notes, plan
        self._saves = self._calls = self._writes = 0
        self._is_saving = self._has_fired = False
        self._disk = _Disk()

    @contextmanager
    def installed(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(replaced(Writer, "_written", self._counting(Writer._written)))
            for name in _CALLS:
                stack.enter_context(replaced(CheckpointFiles, name, self._call(name, getattr(CheckpointFiles, name))))
            yield

    def _counting(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def written(writer: Any, *args: Any) -> Any:
            self._saves, self._calls, self._writes, self._is_saving = self._saves + 1, 0, 0, True
            try:
                return plain(writer, *args)
            finally:
                self._is_saving = False
                self._notes.add("calls", {"all": self._calls, "writes": self._writes})

        return written

    def _call(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(files: Any, *args: Any) -> Any:
            if self._is_saving:
                self._calls += 1
                self._writes += name == "write"
                self._fire_if_planned(name)
            result = plain(files, *args)
            if self._plan is not None and self._plan.kind == "power":
                self._disk.note(name, args, result)
            return result

        return call

    def _fire_if_planned(self, name: str) -> None:
        plan = self._plan
        if plan is None or self._saves < plan.save or self._has_fired:
            return
        if plan.kind == "full" and name == "write" and self._writes == plan.call:
            self._fired(name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if plan.kind != "full" and self._calls == plan.call:
            self._fired(name)
            if plan.kind == "power":
                self._disk.lose(random.Random(plan.seed))
            _die()

    def _fired(self, name: str) -> None:
        self._has_fired = True
        self._notes.add("fired", f"{name}, save {self._saves}")


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("not reached")


class _Disk:
    """The unsynced data: files by descriptor, and names. Data counts as synced after the call has returned."""

    def __init__(self) -> None:
        self._files: dict[int, int] = {}  # by the writer's descriptor: a descriptor of our own
        self._renames: list[tuple[Path, Path]] = []

    def note(self, name: str, args: Any, result: Any) -> None:
        if name == "create":
            self._files[result] = os.dup(result)
        elif name == "sync" and args[0] in self._files:
            os.close(self._files.pop(args[0]))
        elif name == "close" and args[0] in self._files:  # its number may be used again
            self._files[-1 - len(self._files)] = self._files.pop(args[0])
        elif name == "rename":
            self._renames.append((Path(args[0]), Path(args[1])))
        elif name == "sync_folder":
            self._renames = [each for each in self._renames if each[1].parent != Path(args[0])]

    def lose(self, rng: random.Random) -> None:
        for descriptor in self._files.values():
            os.ftruncate(descriptor, int(os.fstat(descriptor).st_size * rng.random()))
        for old, new in reversed(self._renames):
            if rng.random() < 0.5:
                with contextlib.suppress(OSError):
                    os.rename(new, old)
