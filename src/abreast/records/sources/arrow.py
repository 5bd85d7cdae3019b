"""Rows of Arrow tables, from Parquet files and Hugging Face data sets: the column of images, and the types of the others."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError
from abreast.records.decoding.images import check_file_bytes
from abreast.records.extras import extra
from abreast.records.format.columns import BYTES, TEXT, ColumnType, free_name
from abreast.records.sources.listing import PATH_COLUMNS
from abreast.records.sources.source import Missing

_IMAGE_NAMES = ("image", "img", "image_bytes", "bytes", "jpg", "jpeg", "png", "webp", "picture", "photo", "encoded")


@dataclass(frozen=True)
class Layout:
    """The use of a table's columns. The column `image` holds bytes, structs of `bytes` and `path`, or paths.

    `types` has the types of the other columns, by the column's name in the table. `names` has the names of classes, by the
    name of the type.
    """

    image: str
    types: Mapping[str, ColumnType]
    names: Mapping[str, Sequence[str]]

    @property
    def columns(self) -> tuple[ColumnType, ...]:
        return tuple(self.types.values())

    def stored(self, names: Sequence[str]) -> list[str]:
        """The names in the tables of the columns that abreast calls `names`."""
        return [stored for stored, type in self.types.items() if type.name in names]


def layout_of(schema: Any, image: str | None, wanted: Sequence[str] | None, label: Sequence[str] = ()) -> Layout:
    """The layout of tables with this schema. Raises `DataError` if no image is found, or if a column's type is unknown.

    `wanted` names the columns to keep, by our names; None keeps all. `label` names the columns from which a label is made;
    they may hold lists of text.
    """
    features = _features(schema)
    chosen = _image_column(schema, image, features)
    classes = {name: of["names"] for name, of in features.items() if isinstance(of, dict) and of.get("names")}
    types: dict[str, ColumnType] = {}
    unusable: dict[str, str] = {}
    for field in schema:
        if field.name != chosen:
            called = _called(field.name, schema, classes, [type.name for type in types.values()], label)
            kind = _type(called, field.type, may_be_tags=called in label)
            if kind is not None:
                types[field.name] = kind
            elif wanted is None or called in wanted:
                unusable[called] = str(field.type)
    if unusable:
        good = ",".join(type.name for type in types.values())
        what = ", ".join(f"{name} ({kind:.60})" for name, kind in unusable.items())
        raise DataError(
            f"columns of these types cannot be packed: {what}", f"name the columns to keep: --columns {good}"
        )
    names = {types[name].name: tuple(map(str, of)) for name, of in classes.items() if name in types}
    if len(names) > 1 and "label" not in names and wanted is None and not label:
        hint = f"choose the one that labels the images: --columns label={next(iter(names))}"
        raise DataError(f"several columns have class names: {', '.join(names)}", hint)
    return Layout(chosen, types, names)


def _features(schema: Any) -> dict[str, Any]:
    """The descriptions of columns that `datasets` writes into the schema's metadata."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        return dict(features)
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def _called(name: str, schema: Any, classes: Mapping[str, Any], taken: Sequence[str], label: Sequence[str]) -> str:
    """Our name for the column. A single column of classes is called `label`, unless `label` is made from other columns."""
    only = list(classes) == [name] and "label" not in schema.names and (not label or "label" in label)
    return free_name("label" if only else name, taken)


def _image_column(schema: Any, image: str | None, features: Mapping[str, Any]) -> str:
    kinds = {field.name: _image_kind(field.type) for field in schema}
    if image is not None:
        if kinds.get(image) is None:
            hint = f"there are: {', '.join(name for name, kind in kinds.items() if kind)}"
            raise DataError(f"there is no column {image!r} of bytes, paths, or both", hint)
        return image
    said = [name for name, of in features.items() if isinstance(of, dict) and of.get("_type") == "Image"]
    pairs = [name for name, kind in kinds.items() if kind == "pair"]
    data = [name for name in _IMAGE_NAMES if kinds.get(name) == "bytes"]
    paths = [name for name in PATH_COLUMNS if kinds.get(name) == "path"]
    for found in (said, pairs, data, paths, [name for name, kind in kinds.items() if kind == "bytes"]):
        if len(found) == 1 or (found and found in (data, paths)):
            return found[0]
        if found:
            hint = f"name the right one: --image {found[0]}"
            raise DataError(f"several columns may be the image: {', '.join(found)}", hint)
    hint = f"name the column: --image NAME; it holds bytes of files, or paths, as {' or '.join(PATH_COLUMNS)}"
    raise DataError(f"none of these columns holds images: {', '.join(schema.names)}", hint)


def _image_kind(type: Any) -> str | None:
    kinds = extra("pyarrow").types
    if kinds.is_struct(type):
        inner = {type.field(i).name: type.field(i).type for i in range(type.num_fields)}
        return "pair" if is_bytes(inner.get("bytes")) and set(inner) <= {"bytes", "path"} else None
    if is_bytes(type):
        return "bytes"
    return "path" if _is_text(type) else None


def is_bytes(type: Any) -> bool:
    kinds = extra("pyarrow").types
    return type is not None and (
        kinds.is_binary(type) or kinds.is_large_binary(type) or kinds.is_fixed_size_binary(type)
    )


def _is_text(type: Any) -> bool:
    kinds = extra("pyarrow").types
    if kinds.is_dictionary(type):
        return _is_text(type.value_type)
    return bool(kinds.is_string(type) or kinds.is_large_string(type))


def _type(name: str, type: Any, may_be_tags: bool = False) -> ColumnType | None:
    """Our type for Arrow's type; None without one. Lists of text are allowed only as tags, from which a label is made."""
    kinds = extra("pyarrow").types
    shape: list[int | None] = []
    said = getattr(type, "shape", None)  # `datasets` stores arrays of known shape as lists of lists
    type = _storage(type)
    if _is_text(type):
        return ColumnType(name, TEXT, (None,))
    if is_bytes(type):
        return ColumnType(name, BYTES, (None,))
    while kinds.is_list(type) or kinds.is_large_list(type) or kinds.is_fixed_size_list(type):
        shape.append(type.list_size if kinds.is_fixed_size_list(type) else None)
        type = _storage(type.value_type)
    if may_be_tags and len(shape) == 1 and _is_text(type):
        return ColumnType(name, TEXT, (None,))
    if isinstance(said, tuple) and len(said) == len(shape):
        shape = list(said)
    if kinds.is_boolean(type) or kinds.is_integer(type) or kinds.is_floating(type):
        return ColumnType(name, np.dtype(type.to_pandas_dtype()).newbyteorder("<").str, tuple(shape))
    return None


def _storage(type: Any) -> Any:
    while isinstance(type, extra("pyarrow").BaseExtensionType):
        type = type.storage_type
    return type


class TableRows:
    """Rows of one table: images and columns, or some of them. Paths are relative to `root`."""

    def __init__(self, table: Any, layout: Layout, root: Path) -> None:
        self._layout = layout
        self._root = root
        there = [name for name in (layout.image, *layout.types) if name in table.column_names]
        self._columns = {name: _chunked(table.column(name)) for name in there}

    def row(self, number: int) -> tuple[Any, dict[str, Any]]:
        """Image and columns. Raises `DataError` for a row without an image; a missing value is replaced by an error."""
        columns = self.columns(number)
        return image_of(self._columns[self._layout.image][number], self._root), columns

    def columns(self, number: int) -> dict[str, Any]:
        return {
            type.name: _value(type, self._columns[name][number])
            for name, type in self._layout.types.items()
            if name in self._columns
        }


def _chunked(column: Any) -> Any:
    """The column, with dictionaries and extension types replaced by their values."""
    pyarrow = extra("pyarrow")
    if isinstance(column.type, pyarrow.BaseExtensionType):
        column = pyarrow.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column


def image_of(value: Any, root: Path) -> bytes | Path:
    """The bytes of a file, or its path, from a scalar of the image's column."""
    content = value
    if content.is_valid and extra("pyarrow").types.is_struct(value.type):
        parts = [value[value.type.field(i).name] for i in range(value.type.num_fields)]
        parts.sort(key=lambda part: not is_bytes(part.type))  # bytes before a path
        content = next((part for part in parts if part.is_valid), parts[0])
    if not content.is_valid:
        raise DataError("the row has no image")
    if is_bytes(content.type):
        check_file_bytes(content.as_buffer().size)
        return bytes(content.as_py())
    try:
        return path_of(content.as_py(), root)
    except UnicodeDecodeError as error:  # pyarrow decodes text only when it is read
        raise DataError(f"the path is not valid UTF-8: {error!s:.100}") from None


def path_of(text: str, root: Path) -> Path:
    if not Path(text).name:
        raise DataError(f"{text!r:.100} names no file", "remove the row, or give its path")
    return root / text


def _value(column: ColumnType, value: Any) -> Any:
    if not value.is_valid:
        return Missing(f"column {column.name!r} is null", "leave out the row, or the column: name the columns to keep")
    try:
        if not column.shape or column.type in (TEXT, BYTES):
            return value.as_py()
        return _array(value, np.dtype(column.type))
    except UnicodeDecodeError as error:
        return DataError(f"column {column.name!r} is not valid UTF-8: {error!s:.100}")
    except ValueError as error:
        return DataError(f"column {column.name!r} does not hold an array: {error!s:.100}")


def _array(value: Any, dtype: np.dtype[Any]) -> Any:
    """Nested lists as one array. Raises `ValueError` for missing numbers and for different lengths."""
    inner = value.values if value.is_valid else None
    if inner is None or inner.null_count:
        raise ValueError("a value in it is null")
    if isinstance(inner, extra("pyarrow").ExtensionArray):
        inner = inner.storage
    if not hasattr(inner, "flatten"):
        return inner.to_numpy(zero_copy_only=False)
    return np.array([_array(each, dtype) for each in inner], dtype)
