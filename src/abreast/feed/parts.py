"""A source read in part: a process reads its own devices' rows of each global batch, and a few that all processes compare.

The order of the rows, and every random draw, are the same as in the whole source. Imports no framework.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from abreast.arrays import arrays_of, map_arrays
from abreast.feed.sparse import dense, is_sparse
from abreast.shares import OwnRows

COMPARED_ROWS = 16  # of each array of a batch


@dataclass(frozen=True)
class Part:
    """The rows `held` of a global batch of `rows` rows. `digest` is the same in all processes that read the same source."""

    data: Any
    rows: int
    held: range
    digest: int


@runtime_checkable
class ReadsParts(Protocol):
    """A data adapter of ours that can read some rows of each batch without the others; users do not call its method."""

    def _parts(self, own_rows: OwnRows) -> Iterator[Part]:
        """The parts of the batches of one epoch."""
        ...


def array_parts(order: Iterator[Any], read: Callable[[Any], Any], own_rows: OwnRows) -> Iterator[Part]:
    """Parts of batches of arrays. `order` yields the places of each batch's rows, as indices or a slice; `read` reads them."""
    for places in order:
        places = range(places.start, places.stop) if isinstance(places, slice) else places
        rows = len(places)
        held = own_rows(rows)
        compared = read(_as_index(places[:: _every(rows)]))
        yield Part(read(_as_index(places[held.start : held.stop])), rows, held, digest(compared, rows))


def _as_index(places: Any) -> Any:
    if not isinstance(places, range):
        return places
    return slice(places.start, places.stop) if places.step == 1 else np.array(places)


def evenly_spaced(data: Any, rows: int) -> Any:
    """Some rows of each array of a batch."""
    step = _every(rows)
    return map_arrays(lambda leaf: leaf[::step], data)


def _every(rows: int) -> int:
    return max(1, rows // COMPARED_ROWS)


def digest(data: Any, before: int = 0) -> int:
    """A checksum of all numbers in a structure of arrays."""
    for leaf in arrays_of(data):
        before = array_digest(dense(leaf) if is_sparse(leaf) else leaf, before)
    return before


def array_digest(array: Any, before: int = 0) -> int:
    """A checksum of an array; `before` is the checksum of the arrays before it."""
    if hasattr(array, "detach"):  # of PyTorch; as bytes, since NumPy does not know all of its types
        # A copy: a tensor whose own memory was given away would count as shared from then on.
        array = array.detach().cpu().clone().reshape(-1).view(sys.modules["torch"].uint8)
    array = np.asarray(array)
    if array.dtype.hasobject:
        return zlib.crc32(repr(array.tolist()).encode(), before)
    flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return zlib.crc32(flat, before)
