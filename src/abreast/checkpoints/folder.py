"""A folder of checkpoints: their names, the newest good one, and the removal of old ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from abreast.checkpoints.files import CheckpointFiles, entries, is_folder, write_errors
from abreast.checkpoints.lock import FolderLock
from abreast.checkpoints.manifest import MANIFEST
from abreast.checkpoints.names import is_final
from abreast.checkpoints.read import read_checkpoint
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.write import GONE, remove_folder, remove_leftovers
from abreast.errors import CheckpointError
from abreast.stderr import tell

__all__ = ["FolderLock", "checkpoint_names", "newest_good", "prune", "remove"]


def checkpoint_names(folder: str | os.PathLike[str]) -> list[str]:
    """The names of the checkpoints in a folder, oldest first, also of damaged ones; none if there is no such folder.

    Raises `CheckpointError` if it is not a folder, or cannot be read.
    """
    folder = Path(folder)
    try:
        return [entry.name for entry in entries(folder) if _is_checkpoint(Path(entry.path))]
    except FileNotFoundError:
        return []
    except OSError as error:
        what = f"cannot read checkpoints in {folder}: {error.strerror or error}"
        raise CheckpointError(what, "name a folder of checkpoints") from None


def newest_good(folder: str | os.PathLike[str], prefix: str = "") -> tuple[str, Snapshot] | None:
    """Name and content of the newest readable checkpoint whose name has the prefix; None if no checkpoint has the prefix.

    Newer ones that cannot be read are reported on stderr. Raises `CheckpointError` if there are checkpoints, but none is
    readable: a training from the beginning would lose them silently.
    """
    names = [name for name in checkpoint_names(folder) if name.startswith(prefix)]
    for name in reversed(names):
        try:
            return name, read_checkpoint(Path(folder) / name)
        except CheckpointError as error:
            then = "and there is none before it" if name == names[0] else "the one before it is tried"
            tell(f"the checkpoint {name} cannot be read, {then}: {error.message}")
    if not names:
        return None
    if len(names) == 1:
        hint = "restore it from a copy, or move it away to begin anew"
        raise CheckpointError(f"the 1 checkpoint in {folder} cannot be read", hint)
    hint = "restore one from a copy, or move them away to begin anew"
    raise CheckpointError(f"none of the {len(names)} checkpoints in {folder} can be read", hint)


def prune(folder: str | os.PathLike[str], keep: int) -> list[str]:
    """Remove all checkpoints except the newest `keep`, and return the names of the removed ones.

    The newest good one stays, however old it is, and so does the last state of each `fit` that has ended (`...-final`), which
    is not counted. The newest good one is found by reading. Raises `CheckpointError` if another job uses the folder.
    """
    if keep < 1:
        raise CheckpointError(f"cannot keep {keep} checkpoints", "keep 1 or more")
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"cannot remove checkpoints from {folder}: it is not a folder")
    with FolderLock(folder):
        with _removing(folder):
            remove_leftovers(folder, CheckpointFiles())
        names = checkpoint_names(folder)
        old = [name for name in names if not is_final(name)][:-keep]
        if old:
            good = _newest_good_name(folder, names)
            old = [name for name in old if name != good]
        remove(folder, old)
    return old


def remove(folder: str | os.PathLike[str], names: Sequence[str], files: CheckpointFiles | None = None) -> None:
    """Remove checkpoints by name. Raises `CheckpointError` if another job uses the folder."""
    folder, files = Path(folder), files or CheckpointFiles()
    with FolderLock(folder), _removing(folder):
        for name in names:
            _remove(folder, name, files)


def _removing(folder: Path) -> AbstractContextManager[None]:
    return write_errors(folder, doing="remove checkpoints from")


def _newest_good_name(folder: Path, names: list[str]) -> str | None:
    for name in reversed(names):
        try:
            read_checkpoint(folder / name)
            return name
        except CheckpointError:
            continue
    return None


def _remove(folder: Path, name: str, files: CheckpointFiles) -> None:
    """Remove a checkpoint so that no part of it remains visible: first its name, durably."""
    gone = folder / f".{name}{GONE}"
    files.rename(folder / name, gone)
    files.sync_folder(folder)
    remove_folder(gone, files)


def _is_checkpoint(path: Path) -> bool:
    """True for a folder with the files of a checkpoint, even if one of them is missing. Packed images have shards."""
    if path.name.startswith(".") or not is_folder(path):
        return False
    names = os.listdir(path)
    is_packed = any(name.startswith("shard-") for name in names)
    return not is_packed and any(name == MANIFEST or name.endswith(".safetensors") for name in names)
