"""The index of a shard: everything except the bytes of its images, such as each image's place, size, key and columns.

Not here: the bytes of an index (`index_file`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.records.format.columns import Array, StoredColumn

# Encodings of a sample's bytes. The position here is the number in the index; the word is the extension in the tar.
ENCODINGS = ("npy", "jpg", "png", "webp", "bmp", "gif", "tiff", "ppm")
MAX_PIXELS = 89_478_485  # of one image: 256 MiB of RGB, where Pillow begins to warn
HINT = "take this file from a copy, or pack the images again"
SAMPLE = np.dtype(
    [
        ("offset", "<u8"),
        ("length", "<u8"),
        ("key_end", "<u8"),
        ("restart_end", "<u8"),
        ("checksum", "<u4"),
        ("height", "<u4"),
        ("width", "<u4"),
        ("channels", "u1"),
        ("encoding", "u1"),
        ("orientation", "u1"),
        ("plain", "u1"),
    ]
)


@dataclass(frozen=True)
class Note:
    """The reason why an item of the source was skipped or not packed exactly. `position` counts the items from 0."""

    position: int
    key: str
    text: str
    skipped: bool


@dataclass(frozen=True)
class Index:
    """Everything about a shard except the bytes of its images. Arrays may lie in mapped memory."""

    first_sample: int  # number of the shard's first sample, counted over all shards
    source_end: int  # number of the source's items that are packed or skipped at the end of this shard
    shard_bytes: int
    shard_sha256: bytes
    samples: Array  # of type `SAMPLE`
    key_bytes: bytes
    restarts: npt.NDArray[np.unsignedinteger[Any]]
    columns: Mapping[str, StoredColumn]
    notes: tuple[Note, ...] = ()

    @property
    def num_samples(self) -> int:
        return len(self.samples)

    @cached_property
    def keys(self) -> list[str]:
        ends = [0, *self.samples["key_end"].tolist()]
        return [self.key_bytes[ends[i] : ends[i + 1]].decode() for i in range(self.num_samples)]

    def restarts_of(self, sample: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Length in bytes of each segment of a JPEG's scan, including the marker after it; empty if it cannot be cut."""
        begin, end = self._restart_bounds[sample : sample + 2].tolist()
        return self.restarts[begin:end]

    @cached_property
    def _restart_bounds(self) -> npt.NDArray[np.uint64]:
        return np.concatenate([np.zeros(1, np.uint64), self.samples["restart_end"]])
