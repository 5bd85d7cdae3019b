"""The column `label`, made from other columns: words become class numbers; several columns, or tags, become one vector.

All sources of one call, which are the parts of a split, get the same classes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from abreast.errors import DataError, a_type
from abreast.records.format.columns import BYTES, TEXT, ColumnType
from abreast.records.format.keys import printable
from abreast.records.sources.arrays import Arrays
from abreast.records.sources.container import Contained, Container, Read
from abreast.records.sources.scan import columns_in, columns_of, is_quick
from abreast.records.sources.selected import missing
from abreast.records.sources.source import Item, ItemSource, Keep, Listed, Missing, everything
from abreast.records.sources.words import given_names, names_of, unknown

LABEL = "label"
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Label:
    """The columns from which `label` is made. `separator` is the text between the tags in one cell."""

    columns: tuple[str, ...]
    separator: str | None = None
    class_names: tuple[str, ...] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the label that a packer saves, without missing ones."""
        names = None if self.class_names is None else list(self.class_names)
        found = {"label": list(self.columns), "label_separator": self.separator, "class_names": names}
        return {name: value for name, value in found.items() if value is not None}


def label_of(
    label: str | Sequence[str] | None,
    separator: str | None,
    class_names: str | PathLike[str] | Sequence[str] | None,
) -> Label | None:
    """The label that these settings describe; None without one. Raises `DataError`."""
    if label is None:
        if separator is not None or class_names is not None:
            word = "label_separator" if separator is not None else "class_names"
            raise DataError(f"{word} means nothing without label", "name the column of the label: label (--label)")
        return None
    columns = tuple(label.split(",") if isinstance(label, str) else label)
    columns = tuple(column.strip() for column in columns)
    if not columns or "" in columns or len({*columns}) < len(columns):
        hint = "name a column, or several different ones: species, or red,green,blue"
        raise DataError(f"this is not a label: {','.join(columns)!r:.100}", hint)
    if separator is not None and not separator.strip() and separator != " ":
        raise DataError(
            f"label_separator={separator!r} is not allowed", "give the text between two tags, such as | or a blank"
        )
    return Label(columns, separator, None if class_names is None else given_names(class_names))


def with_label(names: dict[str, str] | None, label: Label | None) -> dict[str, str] | None:
    """The selection of columns, extended by the label. Raises `DataError` if it has another label."""
    if names is None or label is None:
        return names
    if names.get(LABEL, LABEL) != LABEL:
        raise DataError(
            f"columns makes {LABEL!r} of {names[LABEL]}, and label makes it of {', '.join(label.columns)}",
            "give one of them",
        )
    return {LABEL: LABEL, **names}


@dataclass(frozen=True)
class _Made:
    """The rule for the label of one item. `value` returns an error in place of a label that cannot be made."""

    type: ColumnType
    names: tuple[str, ...] | None
    value: Callable[[Mapping[str, Any]], Any]
    dropped: tuple[str, ...] = ()  # columns that cannot be stored as they are

    def columns(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in columns.items() if name not in (LABEL, *self.dropped)}
        return {LABEL: self.value(columns), **kept}

    def types(self, types: Sequence[ColumnType]) -> tuple[ColumnType, ...]:
        return (self.type, *(type for type in types if type.name not in (LABEL, *self.dropped)))


def labelled(sources: Mapping[str, ItemSource], label: Label, stop: bool) -> dict[str, ItemSource]:
    """The sources with a column `label`. Raises `DataError`, with `stop` also for an item that gets no label."""
    types = [_types(source, label) for source in sources.values()]
    if any(other != types[0] for other in types):
        kinds = " and ".join(dict.fromkeys(", ".join(type.words for type in each) for each in types))
        raise DataError(f"{','.join(label.columns)} has different types in the parts: {kinds}")
    made = _made(list(sources.values()), label, types[0])
    for source in sources.values():
        if stop and is_quick(source):
            _check_labels(source, label, made)
    return {name: _with_label(source, label, made) for name, source in sources.items()}


def _types(source: ItemSource, label: Label) -> list[ColumnType]:
    if source.columns is None:
        hint = "number the words before, or pack a table, files or arrays; targets= of ImageRecords maps words too"
        raise DataError("the columns of an iterable are not known before it is packed, so label cannot be made", hint)
    found = {type.name: type for type in source.columns}
    for name in label.columns:
        if name not in found:
            raise missing(name, found)
    if LABEL in found and LABEL not in label.columns:
        hint = "rename or remove the column, or name it too"
        raise DataError(f"the source has a column {LABEL!r} besides {', '.join(label.columns)}", hint)
    return [found[name] for name in label.columns]


def _made(sources: Sequence[ItemSource], label: Label, types: Sequence[ColumnType]) -> _Made:
    kinds = {type.type if type.type in (TEXT, BYTES) else "numbers" for type in types}
    if len(kinds) > 1 or BYTES in kinds:
        each = ", ".join(f"{type.name} ({type.words})" for type in types)
        raise DataError(f"a label cannot be made of {each}", "name columns of words, or columns of numbers")
    if kinds == {TEXT}:
        return _of_words(sources, label)
    if label.separator is not None:
        raise DataError(
            f"{label.columns[0]!r} holds numbers, which have no tags to separate", "leave label_separator out"
        )
    return _of_number(sources, label, types[0]) if len(types) == 1 else _of_numbers(label, types)


def _of_number(sources: Sequence[ItemSource], label: Label, type: ColumnType) -> _Made:
    """One column of numbers, unchanged, with the names of its classes if it has some."""
    names = [_names_in(source, type.name) for source in sources]
    if any(other != names[0] for other in names):
        raise DataError(f"column {type.name!r} counts different classes in the parts")
    if label.class_names is not None and names[0] not in (None, label.class_names):
        raise DataError(
            f"column {type.name!r} has class names of its own, and others were given", "leave class_names out"
        )
    known = label.class_names or names[0]
    return _Made(replace(type, name=LABEL), known, lambda columns: _number(columns, type, known))


def _number(columns: Mapping[str, Any], type: ColumnType, names: Sequence[str] | None) -> Any:
    value = _value(columns, type.name)
    if names is None or isinstance(value, DataError) or type.shape:
        return value
    if not (0 <= value < len(names) and value == int(value)):
        return DataError(f"column {type.name!r} has {value}, and the {len(names):,} classes are counted from 0")
    return value


def _names_in(source: ItemSource, column: str) -> tuple[str, ...] | None:
    names = getattr(source, "names", {}).get(column)
    if names is None and column == LABEL:
        names = source.class_names
    return None if names is None else tuple(names)


def _of_numbers(label: Label, types: Sequence[ColumnType]) -> _Made:
    """Several columns of numbers as one vector, named by its columns."""
    for type in types:
        if type.shape:
            raise DataError(f"column {type.name!r} holds arrays", "name columns of single numbers")
    if label.class_names is not None:
        raise DataError("class_names are given, and the columns name the places of the vector", "leave class_names out")

    def value(columns: Mapping[str, Any]) -> Any:
        found = [_value(columns, type.name) for type in types]
        error = next((each for each in found if isinstance(each, DataError)), None)
        large = next((each for each in found if not isinstance(each, DataError) and _is_too_large(each)), None)
        if error is None and large is not None:
            error = DataError(f"a label of several columns is float32, which cannot hold {large} exactly")
        return np.array(found, "<f4") if error is None else error

    return _Made(ColumnType(LABEL, "<f4", (len(types),)), label.columns, value)


def _is_too_large(value: Any) -> bool:
    """True if float32 cannot hold the number: a whole number would change, or a fraction would become infinite."""
    if isinstance(value, int | np.integer):
        return abs(int(value)) > 1 << 24
    return math.isfinite(value) and abs(value) > _LARGEST


def _of_words(sources: Sequence[ItemSource], label: Label) -> _Made:
    counts: Counter[str] = Counter()
    lists: set[str] = set()
    for source in sources:
        for _, columns in columns_of(source, label.columns):
            lists.update(name for name in label.columns if isinstance(columns.get(name), list))
            counts.update(_words(columns, label))
    names = label.class_names or names_of(", ".join(label.columns), counts)
    if not names:
        hint = "name a column that has words, or correct the table"
        raise DataError(f"every label is empty: {', '.join(label.columns)}", hint)
    numbers = {name: number for number, name in enumerate(names)}
    said = tuple(map(printable, names))
    if len(label.columns) == 1 and not lists and label.separator is None:
        return _Made(ColumnType(LABEL, "<i8"), said, lambda columns: _class(columns, label, numbers))
    type = ColumnType(LABEL, "<f4", (len(names),))
    return _Made(type, said, lambda columns: _tags(columns, label, numbers), tuple(lists))


def _class(columns: Mapping[str, Any], label: Label, numbers: Mapping[str, int]) -> Any:
    (name,) = label.columns
    value = _value(columns, name)
    if isinstance(value, DataError):
        return value
    word = value.strip()
    if not word:
        return Missing(f"column {name!r} is empty", "fill it in, or leave out the row")
    return numbers[word] if word in numbers else unknown(name, word, list(numbers))


def _tags(columns: Mapping[str, Any], label: Label, numbers: Mapping[str, int]) -> Any:
    """A vector with 1 for each class that is among the tags. No tag at all gives zeros."""
    error = next((value for value in (_value(columns, name) for name in label.columns) if _is_bad(value)), None)
    if error is not None:
        return error
    vector = np.zeros(len(numbers), "<f4")
    for word in _words(columns, label):
        if word not in numbers:
            return unknown(", ".join(label.columns), word, list(numbers))
        vector[numbers[word]] = 1
    return vector


def _is_bad(value: Any) -> bool:
    return isinstance(value, DataError) and not isinstance(value, Missing)


def _words(columns: Mapping[str, Any], label: Label) -> Iterator[str]:
    """The different words of one item, without empty ones."""
    found: dict[str, None] = {}
    for name in label.columns:
        value = columns.get(name)
        cells = value if isinstance(value, list) else [value]
        for cell in cells:
            if isinstance(cell, str):
                parts = [cell] if label.separator is None else cell.split(label.separator)
                found |= dict.fromkeys(part.strip() for part in parts)
    return (word for word in found if word)


def _value(columns: Mapping[str, Any], name: str) -> Any:
    return columns[name] if name in columns else DataError(f"there is no column {name!r}")


def _check_labels(source: ItemSource, label: Label, made: _Made) -> None:
    """Raise the error of the first item that gets no label, before any image is packed."""
    for number, (key, columns) in enumerate(columns_of(source, label.columns)):
        value = made.value(columns)
        if isinstance(value, DataError):
            hint = value.hint or 'correct it, or leave out such images with on_error="skip" (--on-error skip)'
            raise DataError(f"{printable(key)} (number {number} of the source, from 0): {value.message}", hint)


def _with_label(source: ItemSource, label: Label, made: _Made) -> ItemSource:
    assert source.columns is not None
    types = made.types(source.columns)
    if isinstance(source, Listed):
        listed = [replace(item, columns=made.columns(item.columns)) for item in source.listed]
        return replace(source, listed=listed, columns=types, class_names=made.names)
    if isinstance(source, Contained):
        names = {name: of for name, of in source.names.items() if name != LABEL}
        names |= {} if made.names is None else {LABEL: made.names}
        return replace(source, container=_Labelled(source.container, label.columns, made), columns=types, names=names)
    if isinstance(source, Arrays):
        return _LabelledArrays(source, made)
    raise DataError(f"{a_type(source)} cannot be labelled", "pack a table, files or arrays")


@dataclass(frozen=True)
class _LabelledArrays:
    """Arrays as a source whose items include the label."""

    source: Arrays
    made: _Made

    @property
    def columns(self) -> tuple[ColumnType, ...]:
        return self.made.types(self.source.columns)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        return self.made.names

    @property
    def identity(self) -> dict[str, Any]:
        """A digest of the arrays and the class names; the names may come from other parts."""
        whole = self.source.identity
        digest = hashlib.sha256(json.dumps([whole["sha256"], self.class_names]).encode())
        return {**whole, "sha256": digest.hexdigest()}

    @property
    def num_items(self) -> int:
        return self.source.num_items

    def items(self, begin: int, keep: Keep = everything) -> Iterator[Item]:
        for item in self.source.items(begin, keep):
            yield replace(item, columns=self.made.columns(item.columns))


@dataclass(frozen=True)
class _Labelled:
    """A container whose items include the label."""

    container: Container
    made_of: tuple[str, ...]
    made: _Made

    @property
    def kind(self) -> str:
        return self.container.kind

    def identity(self) -> list[Any]:
        return self.container.identity()

    def places(self) -> Iterator[tuple[str, Any]]:
        return self.container.places()

    def values(self, names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        wanted = [*self.made_of, *(name for name in names if name != LABEL)]
        return ((key, self.made.columns(columns)) for key, columns in columns_in(self.container, wanted))

    @contextlib.contextmanager
    def opened(self) -> Iterator[Read]:
        with self.container.opened() as read:

            def labelled_item(place: Any) -> tuple[Any, Mapping[str, Any]]:
                image, columns = read(place)
                return image, self.made.columns(columns)

            yield labelled_item
