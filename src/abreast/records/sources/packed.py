"""A packed data set as the source of another one. Each sample is checked as it is read.

Its tars could be read like any WebDataset. But only the manifest has the list of shards, and only the index has checksums
and the types of columns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.records.decoding.decoder import decode
from abreast.records.format import manifest
from abreast.records.reading.reader import Records, Sample
from abreast.records.sources.container import Contained


def is_packed(folder: Path) -> bool:
    """True for a finished or unfinished packed data set. A `manifest.json` alone may belong to other software."""
    known = any((folder / name).is_file() for name in (manifest.MANIFEST, manifest.PACKING))
    return known and any(folder.glob("shard-*.index"))


def from_records(folder: Path) -> Contained:
    """All samples. Raises `DataError` for an unfinished data set."""
    with Records(folder) as records:
        names = {} if records.class_names is None else {"label": records.class_names}
        return Contained(_Packed(folder, records.manifest), records.columns, len(records), names)


@dataclass(frozen=True)
class _Packed:
    folder: Path
    content: manifest.Manifest
    kind: str = "records"

    def identity(self) -> list[Any]:
        return [[shard.tar_sha256, shard.index_sha256] for shard in self.content.shards]

    def places(self) -> Iterator[tuple[str, int]]:
        with Records(self.folder) as records:
            for _, index in records.shards():
                yield from zip(
                    index.keys, range(index.first_sample, index.first_sample + index.num_samples), strict=True
                )

    def values(self, names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The key and these columns of each sample."""
        with Records(self.folder) as records:
            for _, index in records.shards():
                for row, key in enumerate(index.keys):
                    yield key, {name: index.columns[name].value(row) for name in names if name in index.columns}

    @contextlib.contextmanager
    def opened(self) -> Iterator[Callable[[int], tuple[Any, Mapping[str, Any]]]]:
        with Records(self.folder) as records:
            yield lambda number: _read(records[number])


def _read(sample: Sample) -> tuple[Any, Mapping[str, Any]]:
    return (decode(sample) if sample.encoding == "npy" else bytes(sample.data)), sample.columns
