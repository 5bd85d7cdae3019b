"""Packers that die at a chosen call, and what may be left of a packer that a test disturbs (`tests/harness/crashes.py`).

`python -m tests.records.crashes FOLDER` kills a packer at each of its calls, before, after and in the middle of it, and
prints the results as JSON. It forks, which pytest's own process, with its threads, should not do.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from abreast.durable_files import Files
from abreast.errors import DataError
from abreast.records import Records, verify
from abreast.records.format.manifest import LOCK, PACKING
from tests.harness.crashes import Watched
from tests.records.pieces import contents, small_pack

COUNT = 5


def packed(folder: Path, files: Files | None = None) -> None:
    """A small data set of some shards, by way of these calls."""
    with mock.patch("abreast.records.packing.packer.Files", return_value=files or Files()):
        small_pack(folder, COUNT)


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


if __name__ == "__main__":
    print(json.dumps(kill_everywhere(Path(sys.argv[1]))))
