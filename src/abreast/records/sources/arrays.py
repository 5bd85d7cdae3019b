"""The source of images in NumPy arrays."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.errors import DataError
from abreast.records.format.columns import ColumnType, type_of
from abreast.records.sources.source import Item, Keep, everything


@dataclass(frozen=True)
class Arrays:
    """Arrays as a source. `images`: uint8, (samples, height, width[, 1 or 3 channels]); each value has a row per sample."""

    images: npt.NDArray[np.uint8]
    values: Mapping[str, npt.NDArray[Any]]
    class_names: None = None

    def __post_init__(self) -> None:
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] not in (1, 3)):
            hint = "give uint8 of shape (samples, height, width), or (samples, height, width, channels) with 1 or 3 channels"
            raise DataError(f"these are not images: {self.images.dtype} of shape {shape}", hint)
        for name, values in self.values.items():
            if not values.ndim:
                raise DataError(f"column {name!r} must have a row per image, and is {values!r:.80}")
            if len(values) != len(self.images):
                raise DataError(f"column {name!r} has {len(values)} rows for {len(self.images)} images")

    @property
    def columns(self) -> tuple[ColumnType, ...]:
        return tuple(_type(name, values) for name, values in self.values.items())

    @property
    def identity(self) -> dict[str, Any]:
        """A digest of the whole content of the arrays."""
        digest = hashlib.sha256(repr([self.images.shape, self.columns, sorted(self.values)]).encode())
        for image in self.images:
            digest.update(np.ascontiguousarray(image).data)
        for name in sorted(self.values):
            digest.update(self.values[name].tobytes())
        return {"kind": "arrays", "num_items": self.num_items, "sha256": digest.hexdigest()}

    @property
    def num_items(self) -> int:
        return len(self.images)

    def items(self, begin: int, keep: Keep = everything) -> Iterator[Item]:
        rows = (row for row in range(len(self.images)) if keep(f"{row:08d}"))
        for row in itertools.islice(rows, begin, None):
            columns = {name: values[row] for name, values in self.values.items()}
            yield Item(f"{row:08d}", self.images[row], {name: _plain(value) for name, value in columns.items()})


def _type(name: str, values: npt.NDArray[Any]) -> ColumnType:
    if values.dtype.kind in "US":
        return type_of(name, "" if values.dtype.kind == "U" else b"")
    return ColumnType(name, values.dtype.newbyteorder("<").str, values.shape[1:])


def _plain(value: Any) -> Any:
    """Text and bytes as Python's own types; other values unchanged."""
    return value.item() if isinstance(value, np.str_ | np.bytes_) else value
