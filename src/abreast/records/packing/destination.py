"""The folder that is packed into: new, begun by the same command, whole already, or not ours to touch.

Imports `writer`, `manifest`, `durable` and `errors`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from abreast.errors import DataError
from abreast.records.format import index_file, manifest
from abreast.records.packing.durable import PART, Files, locked, told, write_file
from abreast.records.packing.writer import DatasetWriter


@contextlib.contextmanager
def opened(
    folder: Path, settings: dict[str, Any], shard_bytes: int, files: Files | None = None
) -> Iterator[DatasetWriter | manifest.Manifest]:
    """A writer for `folder`, or the manifest when just this data set is there already.

    Raises `DataError` when another packer is at work there, and for a folder that holds something else.
    """
    files = files or Files()
    with contextlib.ExitStack() as stack:
        with told(folder):
            _check_free(folder)
            _make(folder, files)
            stack.enter_context(_locked(folder))
            done = _begin(folder, settings, files)
            writer = DatasetWriter(folder, settings, shard_bytes, files)
            if done is None:
                writer.resume()
        stack.callback(writer.abandon)
        yield writer if done is None else done


def check_parts(folder: Path, parts: Sequence[str]) -> None:
    """Raise `DataError` unless the folder can hold data sets of these names: it has nothing else."""
    if folder.is_dir() and (others := sorted({path.name for path in folder.iterdir()} - {*parts})):
        hint = "name a folder that is empty or not there yet, or repeat the command that began it"
        raise DataError(f"{folder} holds something else than the parts {', '.join(parts)}: {others[0]}", hint)


def _make(folder: Path, files: Files) -> None:
    """The folder and those above it, each of them lasting."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    files.make_folder(folder)
    for path in reversed(new):
        files.sync_folder(path.parent)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / manifest.LOCK))
        except BlockingIOError:
            hint = "wait for its end, or pack into another folder"
            raise DataError(f"another packer is writing {folder}", hint) from None
        yield


def _check_free(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder", "name a folder that is empty or not there yet")
    names = {path.name for path in folder.iterdir()}
    known = {manifest.MANIFEST, manifest.PACKING, manifest.LOCK, manifest.PACKING + PART}
    if names and not names & known:
        raise DataError(
            f"{folder} is not empty, and holds no packed images", "name a folder that is empty or not there yet"
        )


def _begin(folder: Path, settings: dict[str, Any], files: Files) -> manifest.Manifest | None:
    """Write down what is to be packed, or check that it is the same; gives the manifest when it is done already."""
    packing = folder / manifest.PACKING
    versioned = {"version": index_file.VERSION, **settings}
    if (folder / manifest.MANIFEST).exists():
        whole = manifest.read(folder)
        _check_same(folder, whole.settings, settings)
        if settings.get("source") is None:
            hint = "remove it, or pack into another folder"
            raise DataError(
                f"{folder} is packed already, and whether of the same samples an iterable cannot tell", hint
            )
        files.remove(packing)
        return whole
    if packing.exists():
        _check_same(folder, manifest.unbound(manifest.read_bytes(packing), packing), versioned)
        return None
    files.remove(packing.with_name(packing.name + PART))
    write_file(packing, manifest.bound(versioned), files)
    return None


def _check_same(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    if changed:
        was = ", ".join(f"{name}={old.get(name)!r:.80}" for name in changed)
        now = ", ".join(f"{name}={new.get(name)!r:.80}" for name in changed)
        hint = "pack into another folder, remove this one, or repeat the command that began it"
        raise DataError(f"{folder} was begun with {was}, and is now asked for with {now}", hint)
