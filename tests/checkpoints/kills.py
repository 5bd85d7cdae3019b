"""Kills a save, with the removal of an older checkpoint, at each of its system calls, and fails each of them.

`python -m tests.checkpoints.kills FOLDER` prints the results as JSON; with `--in-place`, the save is one that writes under the
last name at once, as a control.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from abreast.checkpoints import write
from abreast.errors import CheckpointError
from abreast.provenance import versions
from tests.checkpoints.crashes import begun, goes_on, one_save, state
from tests.harness import strace

_FAILED = 3  # the exit code for an error of ours


def kills(place: Path) -> dict[str, Any]:
    """A kill before each call of a save: which files it left, and whether the next job went on."""
    states: Counter[str] = Counter()
    fired = went_on = 0
    calls = _calls(place)
    for call, count in calls.items():
        for k in range(1, count + 1):
            folder = begun(place / f"{call}-{k}")
            code, _ = strace.run(partial(one_save, folder), f"{call}:signal=SIGKILL:when={k}")
            fired += code == -9
            states[state(folder).partition(":")[0]] += 1
            went_on += _goes_on(folder)
            shutil.rmtree(folder)
    return {"calls": dict(calls), "fired": fired, "states": dict(states), "went_on": went_on}


def failures(place: Path, names: tuple[str, ...] = ("ENOSPC", "EIO")) -> dict[str, Any]:
    """An error of the system at each call that writes."""
    states: Counter[str] = Counter()
    exits: Counter[str] = Counter()
    went_on = total = 0
    for call, count in _calls(place).items():
        if call not in ("openat", "write", "fsync", "mkdir", "mkdirat", "rename", "renameat", "renameat2"):
            continue
        for k in range(1, count + 1):
            for name in names:
                folder = begun(place / f"{call}-{k}-{name}")
                code, log = strace.run(partial(_reported, folder, name), f"{call}:error={name}:when={k}")
                exits[
                    "reported" if code == _FAILED else "done" if code == 0 else f"exit code {code} of {call} {k}"
                ] += 1
                assert "(INJECTED)" in log
                total += 1
                states[state(folder).partition(":")[0]] += 1
                went_on += _goes_on(folder)
                shutil.rmtree(folder)
    return {"total": total, "exits": dict(exits), "states": dict(states), "went_on": went_on}


def _calls(place: Path) -> Counter[str]:
    versions()  # which reads files once
    folder = begun(place / "counted")
    calls = strace.counted(lambda: one_save(folder))
    shutil.rmtree(folder)
    return calls


def _reported(folder: Path, name: str) -> None:
    """Exit with `_FAILED` for an error that says what happened and what to do."""
    try:
        one_save(folder)
    except CheckpointError as error:
        said = os.strerror(getattr(errno, name)) in error.message and str(folder) in error.message and error.hint
        os._exit(_FAILED if said else 4)


def _goes_on(folder: Path) -> bool:
    try:
        return goes_on(folder)
    except CheckpointError:
        return False


def _write_in_place() -> None:
    write.part_of = lambda folder, name: folder / name
    write._free_name = lambda part: part


if __name__ == "__main__":
    if "--in-place" in sys.argv:
        _write_in_place()
    if (why := strace.missing()) is not None:
        print(json.dumps({"missing": why}))
    else:
        work = failures if "--failures" in sys.argv else kills
        print(json.dumps(work(Path(sys.argv[1]))))
