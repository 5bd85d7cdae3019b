"""One global batch on the host, and its shards, one per device."""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
from keras import tree

from abreast.arrays import arrays_of, is_plain, map_arrays
from abreast.errors import DataError
from abreast.feed.parts import Part, digest, evenly_spaced
from abreast.feed.sparse import dense, is_sparse
from abreast.feed.telling_rows import Mark, marks, telling_rows
from abreast.shares import shares_of


@dataclass(slots=True)  # frozen ones take three times as long to make, at every step
class HostBatch:
    """One global batch of a source: `data` is `(x, y, sample_weight)` or a shorter tuple; every array has `rows` rows.

    If the source is read in part, the arrays have only the rows `held`, and `digest` comes from the `Part`. `num_bytes`
    counts all arrays whose size is known; the size of TensorFlow's strings, for example, is not.
    """

    data: Any
    rows: int
    structure: tuple[Any, ...] = ()
    num_bytes: int = 0
    held: range | None = None
    digest: int | None = None

    @staticmethod
    def of(data: Any, text: bool = False) -> HostBatch:
        """Wrap a batch. Raises `DataError` if it is empty, holds no numbers, or its arrays differ in their number of rows.

        `text`: whether arrays of strings are accepted too.
        """
        if isinstance(data, Part):
            return replace(HostBatch.of(data.data, text), rows=data.rows, held=data.held, digest=data.digest)
        rows: int | None = None
        num_bytes = 0
        structure = []
        leaves = _leaves(data)
        if any(type(leaf) is not np.ndarray and is_sparse(leaf) for _, leaf in leaves):
            data = tree.map_structure(lambda leaf: dense(leaf) if is_sparse(leaf) else leaf, data)
            leaves = _leaves(data)
        for path, leaf in leaves:
            structure.append((path, leaf is None))
            if leaf is None:
                continue
            shape = getattr(leaf, "shape", None)
            if shape is None or len(shape) == 0:
                raise DataError(
                    f"the batch holds {reprlib.repr(leaf)} at {path}, which has no rows",
                    "give arrays whose first axis is the batch",
                )
            _check_type(leaf, path, text)
            num_bytes += _num_bytes(leaf)
            if rows is None:
                rows = int(shape[0])
            elif int(shape[0]) != rows:
                raise DataError(
                    f"the batch holds arrays of {rows} and of {int(shape[0])} rows (at {path})",
                    "inputs, targets and sample weights need the same number of rows",
                )
        if not rows:
            raise DataError("the data source gave a batch without rows", "check its length, and what it yields")
        return HostBatch(data, rows, tuple(structure), num_bytes)

    @property
    def compared(self) -> int:
        """A checksum of some rows of each array, the same in all processes that read this batch."""
        return digest(evenly_spaced(self.data, self.rows), self.rows) if self.digest is None else self.digest

    @property
    def rows_here(self) -> int:
        """The number of rows that this process holds."""
        return self.rows if self.held is None else len(self.held)

    @property
    def has_equal_rows(self) -> bool:
        """Whether all rows of the inputs that this process holds are equal, as in a batch of zeros."""
        return all(map(_has_equal_rows, arrays_of(self.data[0] if type(self.data) is tuple else self.data)))

    def cut(self, num_devices: int) -> list[Any]:
        """One shard per device, as views. A device without rows gets the first row as a stand-in (see `Shares`)."""
        return [self.rows_at(rows) for rows in shares_of(self.rows, num_devices).slices]

    def rows_at(self, rows: slice) -> Any:
        """Some rows of the global batch; this process must hold them."""
        if self.held is not None:
            rows = slice(rows.start - self.held.start, rows.stop - self.held.start)
        return self._at(rows)

    def first_rows(self, count: int) -> Any:
        """The first `count` rows that this process holds, repeated if it holds fewer."""
        here = self.rows_here
        return self._at(slice(count) if count <= here else [row % here for row in range(count)])

    def telling_rows(self, count: int) -> Any:
        """`count` rows that this process holds: the first ones, and some that differ from those (see `telling_rows.py`)."""
        chosen = telling_rows(self.data, min(count, self.rows_here))
        return self.first_rows(count) if chosen == list(range(len(chosen))) else self._at(chosen)

    def marks(self, known: set[Mark]) -> set[Mark]:
        """The kinds of numbers in the rows that this process holds, without the known ones."""
        return marks(self.data, known)

    def _at(self, rows: slice | list[int]) -> Any:
        return map_arrays(lambda leaf: _rows_of(leaf, rows), self.data)


def _has_equal_rows(leaf: Any) -> bool:
    try:
        array = np.asarray(leaf)
    except (TypeError, RuntimeError):  # torch's bfloat16, a tensor on a GPU
        return False
    return all(bool((array[:stop] == array[:1]).all()) for stop in (2, None))


def _rows_of(leaf: Any, rows: slice | list[int]) -> Any:
    by_list = isinstance(leaf, np.ndarray) or not type(leaf).__module__.startswith("tensorflow")
    return leaf[rows] if isinstance(rows, slice) or by_list else np.asarray(leaf)[rows]


Unread = tuple[HostBatch | None, BaseException | None]  # a batch that no step took, or the exception of reading it


def _leaves(data: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Every array (or None) and its path."""
    if is_plain(data):
        return [((index,), leaf) for index, leaf in enumerate(data)]
    leaves: list[tuple[tuple[Any, ...], Any]] = tree.flatten_with_path(data)
    return leaves


def names(structure: tuple[Any, ...]) -> str:
    """The names of the arrays of a batch, for an error message."""
    return "[" + ", ".join("/".join(map(str, path)) or "x" for path, missing in structure if not missing) + "]"


def _check_type(leaf: Any, path: tuple[Any, ...], takes_text: bool) -> None:
    """Raise `DataError` for a NumPy array that no step can compute with. The frameworks' own errors do not name the array."""
    kind = getattr(getattr(leaf, "dtype", None), "kind", "")
    if kind not in ("O", "S", "U", "M", "m"):
        return
    text = kind in ("S", "U") or (kind == "O" and isinstance(leaf.flat[0] if leaf.size else "", str | bytes))
    if text and takes_text:
        return
    raise not_numbers("str" if text else str(leaf.dtype), f" at {path}")


def not_numbers(dtype: str, where: str = "") -> DataError:
    """The error for an array of another type; `dtype` is the type's name, `where` its place in the batch."""
    what = "strings" if dtype.startswith("str") else "Python objects" if dtype == "object" else f"{dtype} values"
    return DataError(
        f"the batch holds an array of {what}{where}, which {keras.backend.backend()} cannot compute with",
        "give arrays of numbers: pad rows of different lengths to one, and turn text and dates into numbers in the source",
    )


def _num_bytes(leaf: Any) -> int:
    known = getattr(leaf, "nbytes", None)
    if known is not None:
        return int(known)
    item_bytes = getattr(getattr(leaf, "dtype", None), "size", None) or 0  # TensorFlow's dtypes have it
    return int(item_bytes) * math.prod(map(int, leaf.shape))
