"""Which adapter a source gets.

Imports the adapters and `errors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.sources.arrays import Arrays
from abreast.records.sources.folder import from_folder
from abreast.records.sources.iterable import Iterated
from abreast.records.sources.listing import from_csv, from_list
from abreast.records.sources.source import Listed, Source

_LISTS = (".lst", ".txt", ".tsv")


def source_of(source: Any) -> Source:
    """An adapter for a path, arrays or an iterable; a `Source` is one itself. Raises `DataError` for all else."""
    if isinstance(source, str | PathLike):
        return _of_path(Path(fspath(source)))
    if isinstance(source, np.ndarray):
        return Arrays(source, {})
    if isinstance(source, Mapping) and isinstance(source.get("image"), np.ndarray):
        return Arrays(source["image"], {name: np.asarray(source[name]) for name in source if name != "image"})
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[0], np.ndarray) and source[0].ndim > 2:
        if _is_colour_image(source[0]) and _is_colour_image(source[1]):
            hint = "give a list of images, or one array of them"
            raise DataError("a tuple is images with their labels, and these look like two images", hint)
        return Arrays(source[0], {"label": np.asarray(source[1])})
    if hasattr(source, "items") and hasattr(source, "identity"):
        found: Source = source
        return found
    if isinstance(source, Iterable) and not isinstance(source, Mapping | bytes):
        return Iterated(source)
    hint = "give a folder, a list or CSV file, NumPy arrays, or an iterable of samples"
    raise DataError(f"cannot pack a {type(source).__name__}", hint)


def _is_colour_image(array: Any) -> bool:
    image = isinstance(array, np.ndarray) and array.ndim == 3 and array.dtype == np.uint8
    return bool(image and array.shape[2] in (1, 3))


def _of_path(path: Path) -> Source:
    if path.is_dir():
        return from_folder(path)
    if not path.exists():
        raise DataError(f"there is no {path}", "give a folder of images, or a file that lists them")
    if path.suffix.lower() == ".csv":
        return from_csv(path)
    if path.suffix.lower() in _LISTS:
        return from_list(path)
    hint = f"give a folder, a list ({', '.join(_LISTS)}) or a table (.csv)"
    raise DataError(f"cannot tell what {path} lists by its name", hint)


def shuffled(source: Source, seed: int) -> Source:
    """The source in another order, a function of the seed and the keys."""
    if not isinstance(source, Listed):
        raise DataError("only a folder, a list or a table can be shuffled", "leave shuffle_seed out, or shuffle before")
    return source.shuffled(seed)
