"""Samples from any iterable: items, dictionaries, images, or pairs of image and label."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.sources.source import Item, Keep, everything


@dataclass(frozen=True)
class Iterated:
    """Any iterable that gives the same samples each time. After a stop, the packed samples are drawn again and compared.

    Arrays are copied as soon as they are drawn: an iterable may use the same memory for the next sample.
    """

    samples: Iterable[Any]
    columns: None = None
    class_names: None = None
    identity: dict[str, Any] | None = None

    @property
    def num_items(self) -> int | None:
        size = getattr(self.samples, "__len__", None)
        return None if size is None else int(size())

    def items(self, begin: int, keep: Keep = everything) -> Iterator[Item]:
        found = (_item(number, sample) for number, sample in enumerate(self.samples))
        for item in itertools.islice((item for item in found if keep(item.key)), begin, None):
            columns = {name: _own(value) for name, value in item.columns.items()}
            yield Item(item.key, _own(item.image), columns)


def _item(number: int, sample: Any) -> Item:
    if isinstance(sample, Item):
        return sample
    if isinstance(sample, Mapping):
        columns = {name: value for name, value in sample.items() if name not in ("image", "key")}
        if "image" in sample:
            return Item(str(sample.get("key", f"{number:08d}")), _image(sample["image"]), columns)
    elif isinstance(sample, tuple) and len(sample) == 2:
        return Item(f"{number:08d}", _image(sample[0]), {"label": sample[1]})
    elif isinstance(sample, bytes | str | PathLike | np.ndarray):
        return Item(f"{number:08d}", _image(sample))
    hint = "give (image, label), a dictionary with `image`, or an image: a path, bytes or a uint8 array"
    raise DataError(f"sample {number} of the iterable is {sample!r:.100}", hint)


def _image(image: Any) -> Any:
    return Path(fspath(image)) if isinstance(image, str | PathLike) else image


def _own(value: Any) -> Any:
    """A copy of the value, if it is mutable."""
    if isinstance(value, np.ndarray | list | tuple):
        return copy.deepcopy(value)
    if hasattr(value, "__array__") and not isinstance(value, np.generic):
        return np.array(value)
    return value
