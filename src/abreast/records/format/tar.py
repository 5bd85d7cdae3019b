"""Members of a tar as bytes. They have no time and no owner, so that the same input gives the same bytes.

A sample is a run of members whose names begin with its key: the image, a `.npy` or `.bin` for each array and each column
of bytes, `.cls` for a whole number called `label`, and `.json` for other numbers and text.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from abreast.plain_json import finite
from abreast.records.format.columns import BYTES, TEXT, Array, ColumnType

BLOCK_BYTES = 512
END = bytes(2 * BLOCK_BYTES)


def header(name: str, size_bytes: int) -> bytes:
    """The header before a member's bytes: one block, or three for a name that is longer than the header's field."""
    info = tarfile.TarInfo(name)
    info.size = size_bytes
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def member(name: str, data: bytes) -> bytes:
    return b"".join([header(name, len(data)), data, bytes(-len(data) % BLOCK_BYTES)])


def column_members(key: str, columns: Sequence[ColumnType], values: Iterable[Array]) -> Iterator[bytes]:
    """The members that hold a sample's columns. They are for other tools: our reader takes columns from the index."""
    plain: dict[str, Any] = {}
    for column, value in zip(columns, values, strict=True):
        if column.type == BYTES:
            yield member(f"{key}.{column.name}.bin", value.tobytes())
        elif column.type == TEXT:
            plain[column.name] = value.tobytes().decode()
        elif column.shape:
            yield member(f"{key}.{column.name}.npy", npy(value))
        elif column.name == "label" and column.element.kind in "iu":
            yield member(f"{key}.cls", str(value[()]).encode())
        else:
            plain[column.name] = finite(value.item())
    if plain:
        yield member(f"{key}.json", json.dumps(plain, ensure_ascii=False, allow_nan=False).encode())


def npy(array: Array) -> bytes:
    """The array as the bytes of a `.npy` file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return file.getvalue()
