"""Keys are safe as names of files, on any system."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast.errors import DataError
from abreast.records.format.keys import MAX_BYTES, KeyMaker, checked_key, is_key, printable

anything = st.text(st.characters(exclude_categories=[]))


@given(st.lists(anything | st.sampled_from(["a.jpg", "a_jpg", "../a", "/", "a/../b", "con", "x" * 300])))
def test_any_paths_make_different_safe_keys(paths: list[str]) -> None:
    maker, again = KeyMaker(), KeyMaker()
    keys = [maker.key(path) for path in paths]
    assert all(is_key(key) for key in keys)
    assert len(set(keys)) == len(keys)
    assert keys == [again.key(path) for path in paths]


def test_ordinary_names_stay_as_they_are() -> None:
    maker = KeyMaker()
    names = ["n01440764/n01440764_10026", "cat/1", "cat/1", "b.c", "über/Füße"]
    keys = [maker.key(name) for name in names]
    assert keys == ["n01440764/n01440764_10026", "cat/1", "cat/1~1", "b_c", "über/Füße"]


@pytest.mark.parametrize(
    "key",
    ["..", "../a", "a/..", "/a", "a/", "a//b", "a.b", ".", "", "a\0b", "a\nb", "C:", "a\\b", "nul", "a/AUX", "\ud800"],
)
def test_a_key_cannot_point_outside_its_folder(key: str) -> None:
    with pytest.raises(DataError, match="cannot have the key"):
        checked_key(key)


def test_a_key_has_at_most_so_many_bytes() -> None:
    assert is_key("a" * MAX_BYTES)
    assert not is_key("a" * (MAX_BYTES + 1))


def test_control_characters_are_escaped() -> None:
    assert printable("a\n\x1b[31mb\x9bc\ud800ä") == "a\\n\\x1b[31mb\\x9bc\\ud800ä"
