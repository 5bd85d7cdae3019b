"""Values of any NumPy type become bytes and come back; values that do not fit are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from abreast.errors import DataError
from abreast.records.format.columns import NUMBERS, ColumnType, StoredColumn, fitted, type_of

numbers = st.sampled_from(NUMBERS).map(np.dtype)


@given(
    numbers.flatmap(lambda dtype: st.lists(some.arrays(dtype, some.array_shapes(min_dims=2, max_dims=2, min_side=0))))
)
def test_arrays_of_varying_shapes_come_back(values: list[Any]) -> None:
    column = type_of("x", values[0]) if values else ColumnType("x", "<f4", (None, None))
    stored = StoredColumn.of(column, [fitted(column, value) for value in values])
    stored.check(len(values))
    for i, value in enumerate(values):
        assert stored.value(i).dtype == value.dtype
        np.testing.assert_array_equal(stored.value(i), value)


@given(st.lists(st.text()), st.lists(st.binary()))
def test_text_and_bytes_come_back(texts: list[str], blobs: list[bytes]) -> None:
    for name, values in (("text", texts), ("bytes", blobs)):
        column = ColumnType("x", name, (None,))
        stored = StoredColumn.of(column, [fitted(column, value) for value in values])
        assert [stored.value(i) for i in range(len(values))] == values


def test_a_narrower_column_of_floats_rounds() -> None:
    column = ColumnType("x", "<f2", ())
    assert fitted(column, 0.1) == np.float16(0.1)
    assert np.isnan(fitted(column, float("nan"))) and np.isinf(fitted(column, float("-inf")))


def test_fixed_shapes_come_back_as_one_array() -> None:
    column = ColumnType("x", "<i4", (2,))
    stored = StoredColumn.of(column, [fitted(column, [i, i + 1]) for i in range(3)])
    np.testing.assert_array_equal(stored.values(3), [[0, 1], [1, 2], [2, 3]])
    assert stored.value(1).tolist() == [1, 2]


def test_equal_shapes_that_could_vary_come_back_as_one_array() -> None:
    column = ColumnType("x", "<i4", (None,))
    same = StoredColumn.of(column, [fitted(column, [i, i + 1]) for i in range(3)])
    np.testing.assert_array_equal(same.values(3), [[0, 1], [1, 2], [2, 3]])
    assert StoredColumn.of(column, [fitted(column, [0]), fitted(column, [0, 1])]).values(2) is None
    text = ColumnType("x", "text", (None,))
    assert StoredColumn.of(text, [fitted(text, "ab"), fitted(text, "cd")]).values(2) is None


@pytest.mark.parametrize(
    ("value", "kind", "shape"),
    [
        (3, "<i8", ()),
        (True, "|b1", ()),
        (0.5, "<f8", ()),
        ("a", "text", (None,)),
        (b"a", "bytes", (None,)),
        (np.float32(1), "<f4", ()),
        ([1, 2], "<i8", (None,)),
        (np.zeros((2, 3), ">u2"), "<u2", (None, None)),
    ],
)
def test_types_are_found_from_values(value: Any, kind: str, shape: tuple[int | None, ...]) -> None:
    assert type_of("x", value) == ColumnType("x", kind, shape)


@pytest.mark.parametrize("value", [None, object(), 1j, [[1], [1, 2]], {"a": 1}, np.datetime64("2020-01-01")])
def test_values_of_other_types_are_refused(value: Any) -> None:
    with pytest.raises(DataError):
        type_of("x", value)


@pytest.mark.parametrize(
    ("kind", "shape", "value"),
    [
        ("|u1", (), 256),
        ("|u1", (), -1),
        ("<i8", (), 0.5),
        ("<f4", (), 1e300),
        ("<i4", (), float("nan")),
        ("<i8", (2,), [1, 2, 3]),
        ("<i8", (), "1"),
        ("text", (None,), b"a"),
        ("bytes", (None,), "a"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_refused(kind: str, shape: tuple[int | None, ...], value: Any) -> None:
    with pytest.raises(DataError, match="'x'"):
        fitted(ColumnType("x", kind, shape), value)


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "1a", "ä", "a" * 33, "a\0"])
def test_a_column_with_an_unsafe_name_is_refused(name: str) -> None:
    with pytest.raises(DataError):
        ColumnType(name, "<i8")


@pytest.mark.parametrize(
    "data", [None, {}, {"name": "x", "type": "|O8", "shape": []}, {"name": "x", "type": "<i8", "shape": [True]}]
)
def test_a_description_of_another_type_is_refused(data: Any) -> None:
    with pytest.raises(DataError):
        ColumnType.from_json(data)
