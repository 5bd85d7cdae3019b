"""Images in folders. In a folder of folders, each folder is a class; a folder of images has no labels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from abreast.errors import DataError
from abreast.records.format.columns import ColumnType
from abreast.records.format.keys import KeyMaker, printable
from abreast.records.sources.source import Item, Listed

EXTENSIONS = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pnm")
)


def from_folder(folder: Path) -> Listed:
    """All images below `folder`, in the order of their names. Labels are int64, and count the sorted classes from 0."""
    classes = sorted(_folders(folder))
    found = [(label, path) for label, name in enumerate(classes) for path in _images(folder / name)]
    loose = list(_images(folder, deep=False))
    if found and loose:
        hint = "put all images into folders of classes, or none of them"
        raise DataError(f"{folder} has images such as {loose[0].name} beside folders of images", hint)
    if not found and not loose:
        hint = f"images are files whose names end in one of {' '.join(sorted(EXTENSIONS))}"
        raise DataError(f"there is no image in {folder}", hint)
    keys = KeyMaker()
    if loose:
        return Listed("folder", folder, [Item(keys.key(path.stem), path) for path in loose], ())
    labels = (ColumnType("label", "<i8"),)
    items = [Item(keys.key(_plain(folder, path)), path, {"label": label}) for label, path in found]
    return Listed("folder", folder, items, labels, [printable(name) for name in classes])


def has_images(folder: Path) -> bool:
    """True if there is an image below `folder`."""
    return next(_images(folder), None) is not None


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> DataError:
    hint = "make it readable, or move it out of the source"
    return DataError(f"cannot read the folder {error.filename}: {error.strerror}", hint)


def stop(error: OSError) -> None:
    """Raise the error, for `os.walk`, which otherwise skips folders that it cannot read."""
    raise _unreadable(error) from error


def _plain(folder: Path, path: Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


def _images(folder: Path, deep: bool = True) -> Iterator[Path]:
    """Images in `folder`, then those in its subfolders; both sorted, without hidden ones and links to folders."""
    for place, folders, names in os.walk(folder, onerror=stop):
        folders[:] = sorted(name for name in folders if deep and not name.startswith("."))
        for name in sorted(names):
            if Path(name).suffix.lower() in EXTENSIONS and not name.startswith("."):
                yield Path(place, name)
