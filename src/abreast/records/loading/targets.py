"""The targets of a loader: columns of numbers unchanged, and columns of words as class numbers with their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.format.columns import Array
from abreast.records.format.keys import printable
from abreast.records.reading.reader import Records, meant, text_names
from abreast.records.sources.labels import LABEL
from abreast.records.sources.words import given_names, names_of, unknown
from abreast.stderr import tell_once

Targets = str | Sequence[str] | None
ClassNames = str | PathLike[str] | Sequence[str] | None
_SHOWN = 10
_NUMBERED: dict[
    str, tuple[str, tuple[str, ...]]
] = {}  # by column: the first data set with its own numbers, and its names


@dataclass(frozen=True)
class TargetColumns:
    """The targets of all samples. `arrays`: one array, several by name, or None. `class_names`: of a single column."""

    arrays: Array | dict[str, Array] | None
    class_names: tuple[str, ...] | None


def target_columns(records: Records, targets: Targets, class_names: ClassNames = None) -> TargetColumns:
    """The targets of all samples. Raises `DataError` for columns that cannot be targets."""
    names = None if class_names is None else given_names(class_names)
    if isinstance(targets, str):
        return TargetColumns(*_column(records, targets, names))
    if names is not None:
        hint = "name one column as targets; the numbers of several have to be the same already"
        raise DataError(f"class_names are given, and targets={targets!r:.100} is not one column", hint)
    if targets is None:
        return TargetColumns(None, records.class_names)
    return TargetColumns({name: _column(records, name, None)[0] for name in targets}, records.class_names)


def _column(records: Records, name: str, given: tuple[str, ...] | None) -> tuple[Array, tuple[str, ...] | None]:
    if name in text_names(records):
        return _of_words(records, name, given)
    try:
        numbers = records.column(name)
    except DataError as error:
        raise DataError(error.message, _other_targets(records, name, str(error.hint))) from None
    known = records.class_names if name == LABEL else None
    return (numbers, known) if given is None or given == known else (_renumbered(name, numbers, known, given), given)


def _other_targets(records: Records, name: str, of_numbers: str) -> str:
    """The hint for a column that cannot be targets. `of_numbers` lists the columns of numbers."""
    words = text_names(records)
    one = words[0] if len(words) == 1 else "..."
    of_words = f"; columns of words: {', '.join(words)} (targets={one!r} numbers them)" if words else ""
    near = "" if of_numbers.startswith("did you mean") else meant(name, words)
    return f"{near}{of_numbers}{of_words}; targets=None gives images alone"


def _of_words(records: Records, name: str, given: tuple[str, ...] | None) -> tuple[Array, tuple[str, ...]]:
    words = [word.strip() for word in records.texts(name)]
    empty = next((number for number, word in enumerate(words) if not word), None)
    if empty is not None:
        key = printable(records[empty].key)
        raise DataError(f"column {name!r} of sample {empty} ({key}) is empty", "pack the images without it")
    names = given or _names_of_label(records, name) or _own_names(records, name, words)
    numbers = {word: number for number, word in enumerate(names)}
    other = next((word for word in words if word not in numbers), None)
    if other is not None:
        raise unknown(name, other, names)
    return np.array([numbers[word] for word in words], np.int64), names


def _names_of_label(records: Records, name: str) -> tuple[str, ...] | None:
    """The class names if the column `label` was made from this column; they are the same in all parts of a split."""
    return records.class_names if records.manifest.settings.get("label") == [name] else None


def _own_names(records: Records, name: str, words: Sequence[str]) -> tuple[str, ...]:
    names = names_of(name, Counter(words))
    if "split" in records.manifest.settings:
        hint = f"pack with label={name!r} (--label {name}), or give every part the same class_names=[...]"
        raise DataError(f"{records.folder} is a part, which may lack some words of column {name!r}", hint)
    some = ", ".join(map(printable, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
    tell_once(f"targets={name!r} of {records.folder}: {len(names):,} classes, numbered from 0: {some}")
    folder, others = _NUMBERED.setdefault(name, (str(records.folder), names))
    if others != names:
        tell_once(
            f"targets={name!r} of {records.folder} and of {folder} have different numbers for their words\n"
            "hint: of one training, give the later data sets class_names=, as class_names=train.class_names"
        )
    return names


def _renumbered(name: str, numbers: Array, known: tuple[str, ...] | None, given: tuple[str, ...]) -> Array:
    """The numbers, or the places of a vector, in the order of the given names."""
    if known is None:
        return _named(name, numbers, given)
    _named(name, numbers, known)
    places = [given.index(word) if word in given else -1 for word in known]
    if numbers.ndim == 2:
        return _moved(name, numbers, known, places, given)
    if (lost := next((known[number] for number in np.unique(numbers) if places[number] < 0), None)) is not None:
        raise unknown(name, lost, given)
    found: Array = np.array(places, np.int64)[numbers]
    return found


def _moved(name: str, vectors: Array, known: Sequence[str], places: Sequence[int], given: Sequence[str]) -> Array:
    moved = np.zeros((len(vectors), len(given)), vectors.dtype)
    for place, (word, target) in enumerate(zip(known, places, strict=True)):
        if target >= 0:
            moved[:, target] = vectors[:, place]
        elif vectors[:, place].any():
            raise unknown(name, word, given)
    return moved


def _named(name: str, numbers: Array, given: tuple[str, ...]) -> Array:
    """The numbers unchanged, if each of them has one of these names."""
    many: Any = numbers.shape[1] if numbers.ndim == 2 else None
    whole = numbers.ndim == 1 and numbers.dtype.kind in "iu" and len(numbers)
    if many == len(given) or (whole and numbers.min() >= 0 and numbers.max() < len(given)):
        return numbers
    what = (
        f"vectors of {many}"
        if many
        else f"numbers from {numbers.min()} to {numbers.max()}"
        if whole
        else "other values"
    )
    hint = "give a name for each number from 0; pack without the images of other numbers"
    raise DataError(f"there are {len(given):,} class names, and column {name!r} holds {what}", hint)
