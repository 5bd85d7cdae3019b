"""The choice of a source's adapter: by the type of an object, by a file's name, or else by the file's first bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError, a_type
from abreast.records.sources.arrays import Arrays
from abreast.records.sources.container import Contained, compressed
from abreast.records.sources.folder import from_folder, has_images
from abreast.records.sources.huggingface import from_datasets, is_datasets
from abreast.records.sources.iterable import Iterated
from abreast.records.sources.listing import from_csv, from_list
from abreast.records.sources.packed import from_records, is_packed
from abreast.records.sources.parquet import from_parquet
from abreast.records.sources.recordio import MAGIC, from_recordio
from abreast.records.sources.source import ItemSource, Listed
from abreast.records.sources.tfrecord import from_tfrecords, is_tfrecord
from abreast.records.sources.webdataset import from_files, from_tars, is_layout

_LISTS = (".lst", ".txt", ".tsv")
_KINDS = {
    ".tar": "tar",
    ".tfrecord": "TFRecord",
    ".tfrecords": "TFRecord",
    ".tfrec": "TFRecord",
    ".rec": "RecordIO",
    ".parquet": "Parquet",
    ".pq": "Parquet",
}
_PACKED = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".zip")
_NUMBERED = re.compile(r".+-\d+-of-\d+")  # names of shards without an extension, such as ImageNet's


def source_of(
    source: Any, image: str | None = None, wanted: Sequence[str] | None = None, label: Sequence[str] = ()
) -> ItemSource:
    """The adapter for a path, paths of shards, arrays or an iterable. An `ItemSource` is returned as it is. Raises `DataError`.

    `image` names the column, feature or extension that holds the images. `wanted` names the columns to keep; None keeps all.
    `label` names the columns from which a label is made; in tables of Arrow they may hold lists of text.
    """
    if isinstance(source, str | PathLike):
        _check_path(fspath(source))
        return _of_path(Path(fspath(source)), image, wanted, label)
    if is_datasets(source):
        return from_datasets(source, image, wanted, label)
    if (shards := _shards(source)) is not None:
        return _of_shards(shards, image, wanted, label)
    if image is not None:
        raise DataError(f"image={image!r} means nothing for {a_type(source)}", "leave image out")
    return _of_object(source)


def _check_path(path: str) -> None:
    """Raise `DataError` for text that is not a path. An empty path would mean the current folder."""
    if not path:
        raise DataError("the source has no name", "name a folder, a list or shards; . is the current folder")
    if re.match("[A-Za-z][A-Za-z0-9+-]*://", path):
        raise DataError(f"{path:.200} is not a path", "copy it to a disk first: abreast does not read over a network")


def _of_object(source: Any) -> ItemSource:
    if isinstance(source, np.ndarray):
        return Arrays(source, {})
    if isinstance(source, Mapping) and isinstance(source.get("image"), np.ndarray):
        return Arrays(source["image"], {name: np.asarray(source[name]) for name in source if name != "image"})
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[0], np.ndarray) and source[0].ndim > 2:
        if _is_colour_image(source[0]) and _is_colour_image(source[1]):
            hint = "give a list of images, or one array of them"
            raise DataError("a tuple must be images and their labels, and these look like two images", hint)
        return Arrays(source[0], {"label": np.asarray(source[1])})
    if hasattr(source, "items") and hasattr(source, "identity"):
        found: ItemSource = source
        return found
    if isinstance(source, Iterable) and not isinstance(source, Mapping | bytes):
        return Iterated(source)
    hint = "give a folder, a list, a table, shards, NumPy arrays, a data set of Hugging Face, or an iterable of samples"
    raise DataError(f"cannot pack {a_type(source)}", hint)


def _is_colour_image(array: Any) -> bool:
    image = isinstance(array, np.ndarray) and array.ndim == 3 and array.dtype == np.uint8
    return bool(image and array.shape[2] in (1, 3))


def _shards(source: Any) -> list[Path] | None:
    """The paths, if all elements of a list are paths of shards; else None."""
    if not isinstance(source, list | tuple) or not source or not all(isinstance(p, str | PathLike) for p in source):
        return None
    paths = [Path(fspath(path)) for path in source]
    return paths if all(path.suffix.lower() in _KINDS or _NUMBERED.fullmatch(path.name) for path in paths) else None


def _of_path(path: Path, image: str | None, wanted: Sequence[str] | None, label: Sequence[str]) -> ItemSource:
    if path.is_dir():
        return _of_folder(path, image, wanted, label)
    if not path.exists():
        raise DataError(f"there is no {path}", "give a folder of images, or a file that lists or holds them")
    suffix = path.suffix.lower()
    if suffix == ".csv" or suffix in _LISTS:
        _no_image(image, f"a list or a table of text, as {path.name}")
        return from_csv(path) if suffix == ".csv" else from_list(path)
    return _of_shards([path], image, wanted, label)


def _of_folder(folder: Path, image: str | None, wanted: Sequence[str] | None, label: Sequence[str]) -> ItemSource:
    shards = [path for path in sorted(folder.iterdir()) if path.is_file() and _may_be_shard(path)]
    if not shards:
        if is_layout(folder):
            return from_files(folder, image)
        _no_image(image, "a folder of images")
        return from_folder(folder)
    if has_images(folder):
        hint = "name the shards, or move them or the images elsewhere"
        raise DataError(f"{folder} has images beside shards such as {shards[0].name}", hint)
    if is_packed(folder):
        _no_image(image, "packed images")
        return from_records(folder)
    return _of_shards(shards, image, wanted, label)


def _may_be_shard(path: Path) -> bool:
    if path.name.startswith("."):
        return False
    return path.suffix.lower() in _KINDS or (bool(_NUMBERED.fullmatch(path.name)) and _begins_as(path) is not None)


def _of_shards(
    shards: Sequence[Path], image: str | None, wanted: Sequence[str] | None, label: Sequence[str]
) -> Contained:
    kinds = {path: _kind_of(path) for path in shards}
    if set(kinds.values()) == {"tar", "Parquet"}:  # img2dataset writes the metadata of each tar beside it
        kinds = {path: kind for path, kind in kinds.items() if kind == "tar"}
    paths, kind = list(kinds), next(iter(kinds.values()))
    if len(set(kinds.values())) > 1:
        hint = "pack each kind by itself: name the files, or move them into folders"
        raise DataError(f"these are shards of several kinds: {', '.join(sorted(set(kinds.values())))}", hint)
    if kind == "tar":
        return from_tars(paths, image)
    if kind == "TFRecord":
        return from_tfrecords(paths, image)
    if kind == "Parquet":
        return from_parquet(paths, image, wanted, label)
    _no_image(image, kind)
    return from_recordio(paths)


def _no_image(image: str | None, what: str) -> None:
    if image is not None:
        raise DataError(f"image={image!r} means nothing for {what}", "leave image (--image) out")


def _kind_of(path: Path) -> str:
    if path.suffix.lower() in _PACKED:
        raise compressed(path)
    kind = _KINDS.get(path.suffix.lower()) or _begins_as(path)
    if kind is None:
        hint = f"give a folder, a list ({', '.join(_LISTS)}), a table (.csv, .parquet) or shards ({', '.join(_KINDS)})"
        raise DataError(f"the kind of {path} is unknown, both by its name and by its first bytes", hint)
    return kind


def _begins_as(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if head[:4] == b"PAR1":
        return "Parquet"
    if head[:4] == MAGIC:
        return "RecordIO"
    if head[257:262] == b"ustar":
        return "tar"
    return "TFRecord" if is_tfrecord(head) else None


def files_of_part(folder: Path, name: str, names: Sequence[str]) -> Path | list[Path]:
    """The subfolder of that name, or the shards whose names begin with it.

    A shard whose name begins with several of `names` belongs to the longest of them.
    """
    if (folder / name).is_dir():
        return folder / name
    known = re.compile(rf"({'|'.join(map(re.escape, sorted(names, key=len, reverse=True)))})[-_.].*")
    parts = ((path, known.fullmatch(path.name)) for path in sorted(folder.iterdir()))
    found = [path for path, match in parts if match is not None and match[1] == name and _may_be_shard(path)]
    if not found:
        hint = "write shares to draw parts: train=0.9,val=0.1"
        raise DataError(f"{folder} has no folder {name}, and no shards whose names begin with {name}", hint)
    return found


def shuffled(source: ItemSource, seed: int) -> ItemSource:
    """The source in a random order, which is a function of the seed and the keys."""
    if not isinstance(source, Listed | Contained):
        hint = "leave shuffle_seed out, or shuffle the samples before"
        raise DataError("only files and data sets of Hugging Face can be shuffled", hint)
    return source.shuffled(seed)
