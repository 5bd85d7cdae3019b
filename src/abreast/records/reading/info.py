"""`abreast records info`: the description of a packed data set, as text and as data."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import pairwise
from os import PathLike
from typing import Any

import numpy as np

from abreast.records.format.columns import ColumnType
from abreast.records.format.index import ENCODINGS
from abreast.records.reading.reader import Records, text_names
from abreast.text_table import text_table
from abreast.units import counted

_SHOWN_CLASSES = 10
_LONG = ("source", "class_names")  # settings


def content(folder: str | PathLike[str]) -> dict[str, Any]:
    """The content of the manifest, for JSON."""
    with Records(folder) as records:
        facts = dataclasses.asdict(records.manifest)
        return facts | {"columns": [column.to_json() for column in records.columns]}


def report(folder: str | PathLike[str]) -> str:
    """A few lines that describe counts, sizes, columns and classes."""
    with Records(folder) as records:
        facts = records.manifest
        shards = f"{counted(len(facts.shards), 'shard')}, {facts.file_bytes / 1e6:,.1f} MB"
        rows = [
            ("images", f"{facts.num_samples:,} in {shards}"),
            ("stored as", _encodings(records)),
            ("columns", ", ".join(_column(column) for column in facts.columns) or "none"),
            ("classes", _classes(records)),
            ("skipped", f"{facts.num_skipped:,}"),
            ("settings", ", ".join(_setting(name, of) for name, of in facts.settings.items() if _is_shown(name, of))),
            ("written by", ", ".join(f"{name} {version}" for name, version in facts.written_by.items())),
        ]
    return text_table(rows)


def _is_shown(name: str, value: Any) -> bool:
    return name not in _LONG and value is not None


def _setting(name: str, value: Any) -> str:
    """A setting of the packer in words: `split val of train=0.8, val=0.2 (seed 0)`."""
    match name, value:
        case "split", [part, seed, [*shares]]:
            drawn = " ".join(f"{each}={share:g}" for each, share in shares)
            return f"split {part} of {drawn} (split_seed {seed})"
        case "split", [part]:
            return f"split {part} of the source's own"
        case _, [*values]:
            return f"{name} {' '.join(map(str, values))}"
        case _, float():
            return f"{name} {value:g}"
    return f"{name} {value}"


def _encodings(records: Records) -> str:
    counts: Counter[str] = Counter()
    cuttable = 0
    for _, index in records.shards():
        counts.update(ENCODINGS[number] for number in index.samples["encoding"].tolist())
        ends = [0, *index.samples["restart_end"].tolist()]
        cuttable += sum(end > begin for begin, end in pairwise(ends))
    kinds = ", ".join(f"{number:,} {encoding}" for encoding, number in counts.most_common())
    return f"{kinds}; {cuttable:,} with restart markers"


def _column(column: ColumnType) -> str:
    if column.type in ("text", "bytes"):
        return f"{column.name} ({column.words})"
    sizes = " x ".join("any" if size is None else str(size) for size in column.shape)
    return f"{column.name} ({column.words}{', ' if sizes else ''}{sizes})"


def _classes(records: Records) -> str:
    """The first names, each with its number of images."""
    names = records.class_names
    if names is None:
        words = text_names(records)
        one = words[0] if len(words) == 1 else "..."
        return f"no names; targets={one!r} numbers the words of {' or '.join(words)}" if words else "no names"
    counts = _counts(records, len(names))
    said = names if counts is None else [f"{name} {count:,}" for name, count in zip(names, counts, strict=True)]
    more = len(names) - _SHOWN_CLASSES
    return f"{len(names):,}: " + ", ".join(said[:_SHOWN_CLASSES]) + (f" and {more:,} more" if more > 0 else "")


def _counts(records: Records, num_classes: int) -> list[int] | None:
    """The number of images of each class; None if the column `label` does not count the classes."""
    column = next((column for column in records.columns if column.name == "label"), None)
    if column is None or column.shape not in ((), (num_classes,)) or column.type in ("text", "bytes"):
        return None
    values = records.column("label")
    if column.shape:
        return [int(count) for count in (values != 0).sum(axis=0)]
    if values.dtype.kind not in "iu" or not (values.min(initial=0) >= 0 and values.max(initial=0) < num_classes):
        return None
    return [int(count) for count in np.bincount(values.astype(np.int64), minlength=num_classes)]
