"""The check, after a stop, that an iterable gives the packed samples again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from abreast.errors import DataError
from abreast.records.format import index_file
from abreast.records.format.columns import StoredColumn, fitted
from abreast.records.format.index import Index, Note
from abreast.records.format.keys import printable
from abreast.records.sources.source import Item


def check_repeated(items: Iterator[Item], indices: Iterable[Path], notes: Sequence[Note]) -> None:
    """Draw the items of these shards again. Raise `DataError` if a key or a column differs from the packed one.

    Pixels are not compared, and neither are columns of skipped items.
    """
    skipped = {note.position: note.key for note in notes if note.skipped}
    position = 0
    for path in indices:
        index = index_file.from_bytes(path.read_bytes(), str(path))
        samples = iter(range(index.num_samples))
        while position < index.source_end:
            item = next(items, None)
            if item is None:
                raise _changed(f"it ends before sample {position}")
            _check_item(position, item, index, None if position in skipped else next(samples), skipped.get(position))
            position += 1


def _check_item(position: int, item: Item, index: Index, sample: int | None, skipped: str | None) -> None:
    key = skipped if sample is None else index.keys[sample]
    if printable(item.key) != key:
        raise _changed(f"sample {position} had the key {key!r}, and now has {item.key!r:.300}")
    if sample is None:
        return
    if set(item.columns) != set(index.columns):
        raise _changed(f"sample {position} had the columns {list(index.columns)}, and now has {list(item.columns)}")
    for name, stored in index.columns.items():
        if not _is_value(stored, sample, item.columns):
            raise _changed(f"column {name!r} of sample {position} has changed")


def _is_value(stored: StoredColumn, sample: int, columns: Mapping[str, Any]) -> bool:
    try:
        now = fitted(stored.type, columns[stored.type.name])
        then = fitted(stored.type, stored.value(sample))
    except DataError:
        return False
    return now.shape == then.shape and now.tobytes() == then.tobytes()  # bytes, since NaN != NaN


def _changed(what: str) -> DataError:
    hint = "give the same samples in the same order, or remove the folder and pack again"
    return DataError(f"the iterable has changed since it was packed in part: {what}", hint)
