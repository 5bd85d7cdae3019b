"""The folder to pack into: new, begun by the same command, finished already, or refused because of other content.

A command that stopped before its first whole shard packed nothing: another command starts anew in its folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from abreast.durable_files import Files, make_folders
from abreast.errors import DataError
from abreast.records.format import index_file, manifest
from abreast.records.packing.durable import PART, locked, write_errors, write_file
from abreast.records.packing.writer import DatasetWriter
from abreast.units import counted

_EMPTY_HINT = "name a folder that is empty or does not exist yet"


@contextlib.contextmanager
def opened(
    folder: Path, settings: dict[str, Any], shard_bytes: int, files: Files
) -> Iterator[DatasetWriter | manifest.Manifest]:
    """A writer for `folder`, or the manifest if the folder has exactly this data set already.

    Raises `DataError` if another packer writes there, or if the folder holds something else.
    """
    with contextlib.ExitStack() as stack:
        with write_errors(folder):
            _check_free(folder)
            make_folders(folder, files)
            stack.enter_context(locked(folder / manifest.LOCK))
            done = _begin(folder, settings, files)
            writer = DatasetWriter(folder, settings, shard_bytes, files)
            if done is None:
                writer.resume()
        stack.callback(writer.abandon)
        yield writer if done is None else done


def check_destination(folder: Path, settings: dict[str, Any]) -> None:
    """Raise `DataError` if `opened` would refuse the folder. Nothing is written."""
    _check_free(folder)
    if (folder / manifest.MANIFEST).exists():
        _finished(folder, settings)
    elif (packing := folder / manifest.PACKING).exists() and manifest.has_shard(folder):
        _check_same(folder, _begun_with(packing), _versioned(settings))


def check_parts(folder: Path, parts: Sequence[str]) -> None:
    """Raise `DataError` if the folder holds anything except data sets of these names."""
    if folder.is_dir() and (others := sorted({path.name for path in folder.iterdir()} - {*parts})):
        hint = f"{_EMPTY_HINT}, or repeat the command that began it"
        raise DataError(f"{folder} holds more than the parts {', '.join(parts)}: {others[0]}", hint)


def _check_free(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder", _EMPTY_HINT)
    names = {path.name for path in folder.iterdir()}
    known = {manifest.MANIFEST, manifest.PACKING, manifest.LOCK, manifest.PACKING + PART}
    if names and not names & known:
        raise DataError(f"{folder} is not empty, and holds no packed images", _EMPTY_HINT)


def _begin(folder: Path, settings: dict[str, Any], files: Files) -> manifest.Manifest | None:
    """Write the settings into a new folder, or compare them with an old folder's. Returns the manifest if it is finished."""
    packing = folder / manifest.PACKING
    versioned = _versioned(settings)
    if (folder / manifest.MANIFEST).exists():
        whole = _finished(folder, settings)
        files.remove(packing)
        return whole
    if packing.exists() and manifest.has_shard(folder):
        _check_same(folder, _begun_with(packing), versioned)
        return None
    if packing.exists() and _begun_with(packing) == versioned:
        return None
    files.remove(packing.with_name(packing.name + PART))
    write_file(packing, manifest.bound(versioned), files)
    return None


def _begun_with(packing: Path) -> dict[str, Any]:
    settings: dict[str, Any] = manifest.unbound(manifest.read_bytes(packing), packing)
    return settings


def _finished(folder: Path, settings: dict[str, Any]) -> manifest.Manifest:
    """The manifest of a finished data set. Raises `DataError` unless it has these settings."""
    whole = manifest.read(folder)
    _check_same(folder, whole.settings, settings)
    if settings.get("source") is None:
        hint = "remove it, or pack into another folder"
        raise DataError(f"{folder} is packed already, and an iterable cannot show that its samples are the same", hint)
    return whole


def _versioned(settings: dict[str, Any]) -> dict[str, Any]:
    return {"version": index_file.VERSION, **settings}


def _check_same(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    if not changed:
        return
    options = [name for name in changed if name != "source"]
    counts = _counts(old.get("source"), new.get("source"))
    if not options:
        hint = "pack into another folder, or remove this one to pack all again"
        raise DataError(f"{folder} was begun with another source, or this one has changed since{counts}", hint)
    was = ", ".join(f"{name}={old.get(name)!r:.80}" for name in options)
    now = ", ".join(f"{name}={new.get(name)!r:.80}" for name in options)
    source = f"; its source is another, or has changed since{counts}" if "source" in changed else ""
    hint = "pack into another folder, remove this one, or repeat the command that began it"
    raise DataError(f"{folder} was begun with {was}, and this command has {now}{source}", hint)


def _counts(old: Any, new: Any) -> str:
    """The numbers of items of two sources, if they are known and differ."""
    was, now = ((source or {}).get("num_items") for source in (old, new))
    if was is None or now is None or was == now:
        return ""
    return f": it had {counted(was, 'item')}, this one has {now:,}"
