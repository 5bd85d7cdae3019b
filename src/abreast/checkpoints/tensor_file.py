"""The layout of one safetensors file: its header, and the place of each tensor. Opens no files."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from abreast.checkpoints import values
from abreast.checkpoints.dtypes import stored_type, type_of
from abreast.errors import CheckpointError

MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors library
_ALIGNMENT = 64


@dataclass(frozen=True)
class TensorPlace:
    """Name, type and shape of a tensor, and the place of its bytes: `offset` counts from the beginning of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    num_bytes: int

    @property
    def end(self) -> int:
        return self.offset + self.num_bytes


def layout(tensors: Mapping[str, np.ndarray]) -> tuple[bytes, list[TensorPlace]]:
    """The header of a file, and the place of each tensor, in the order of the file.

    Larger elements come first, so that each tensor is aligned to its elements, as some readers need.
    """
    types = {name: type_of(name, array) for name, array in tensors.items()}
    for name in tensors:
        _check_name(name)
    names = sorted(tensors, key=lambda name: -types[name].stored.itemsize)  # stable
    offset, places = 0, []
    for name in names:
        num_bytes = tensors[name].size * types[name].stored.itemsize
        places.append(TensorPlace(name, types[name].name, tuple(tensors[name].shape), offset, num_bytes))
        offset += num_bytes
    header = _header(places)
    return header, [_moved(place, len(header)) for place in places]


def _check_name(name: str) -> None:
    is_text = isinstance(name, str) and name.encode(errors="replace") == name.encode(errors="surrogatepass")
    if not is_text or name == "__metadata__":
        hint = "use text for names; safetensors uses '__metadata__' itself"
        raise CheckpointError(f"a tensor cannot have the name {name!r:.200}", hint)


def check_layout(places: Sequence[TensorPlace], file_bytes: int) -> int:
    """The header length of a file with these tensors. Raises `ValueError` unless they fill the rest without gaps."""
    places = sorted(places, key=lambda place: (place.offset, place.num_bytes))
    header_bytes = places[0].offset if places else file_bytes
    end = header_bytes
    for place in places:
        if place.offset != end:
            raise ValueError(f"the tensor {place.name!r} begins at {place.offset}, and the one before it ends at {end}")
        end = place.end
    if end != file_bytes:
        raise ValueError(f"its tensors end at {end}, and the file has {file_bytes} bytes")
    if not 8 <= header_bytes <= MAX_HEADER_BYTES:
        raise ValueError(f"a header of {header_bytes} bytes")
    return header_bytes


def check_header(data: bytes, places: Iterable[TensorPlace]) -> None:
    """Raise `ValueError` unless a header describes these tensors, so that other tools read the same tensors."""
    (length,) = struct.unpack_from("<Q", data)
    if length != len(data) - 8:
        raise ValueError(f"its header has {len(data) - 8} bytes and says {length}")
    if data[8:9] != b"{":
        raise ValueError("its header is not a JSON object")
    found = values.parse(data[8:])
    metadata = found.pop("__metadata__", {})
    if not (isinstance(metadata, dict) and all(isinstance(text, str) for text in metadata.values())):
        raise ValueError("the metadata of its header is not text")
    expected = {place.name: _entry(_moved(place, -len(data))) for place in places}
    if json.dumps(found, sort_keys=True) != json.dumps(
        expected, sort_keys=True
    ):  # JSON text, because 0 == False in Python
        raise ValueError("its header and the manifest describe different tensors")


def num_bytes_of(dtype: str, shape: Sequence[int]) -> int:
    """The stored bytes of a tensor. Raises `KeyError` for an unknown type."""
    return math.prod(shape) * stored_type(dtype).stored.itemsize


def _header(places: Iterable[TensorPlace]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {"format": "np"}}
    entries |= {place.name: _entry(place) for place in places}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES - 8:
        hint = "use fewer tensors or shorter names"
        raise CheckpointError(f"the names of {len(entries) - 1:,} tensors need {len(text):,} bytes, too many", hint)
    return struct.pack("<Q", len(text)) + text


def _entry(place: TensorPlace) -> dict[str, Any]:
    dtype = stored_type(place.dtype).in_safetensors
    return {"dtype": dtype, "shape": list(place.shape), "data_offsets": [place.offset, place.end]}


def _moved(place: TensorPlace, by: int) -> TensorPlace:
    return TensorPlace(place.name, place.dtype, place.shape, place.offset + by, place.num_bytes)
