"""The index as bytes: a written index is read back, and any other is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from abreast.errors import DataError
from abreast.records.format import index_file
from abreast.records.format.columns import ColumnType, StoredColumn, fitted
from abreast.records.format.index import SAMPLE, Index, Note


def an_index(num_samples: int = 3) -> Index:
    boxes = ColumnType("boxes", "<f4", (None, 4))
    label = ColumnType("label", "<i8")
    text = ColumnType("text", "text", (None,))
    keys = [f"k{i}".encode() for i in range(num_samples)]
    rows = [(512 + 1024 * i, 100 + i, 2 * (i + 1), 2 * (i + 1), i, 8, 10, 3, 1, 1, 1) for i in range(num_samples)]
    return Index(
        first_sample=40,
        source_end=50,
        shard_bytes=10_000,
        shard_sha256=bytes(range(32)),
        samples=np.array(rows, SAMPLE),
        key_bytes=b"".join(keys),
        restarts=np.arange(2 * num_samples, dtype="<u2"),
        columns={
            "boxes": StoredColumn.of(boxes, [fitted(boxes, np.ones((i, 4), np.float32)) for i in range(num_samples)]),
            "label": StoredColumn.of(label, [fitted(label, i) for i in range(num_samples)]),
            "text": StoredColumn.of(text, [fitted(text, "ä" * i) for i in range(num_samples)]),
        },
        notes=(Note(41, "a/b.jpg", "refused: ä", True),),
    )


def test_an_index_is_read_as_it_was_written() -> None:
    index = an_index()
    again = index_file.from_bytes(index_file.to_bytes(index), "x.index")
    assert again.keys == ["k0", "k1", "k2"]
    assert (again.first_sample, again.source_end, again.shard_bytes) == (40, 50, 10_000)
    assert again.shard_sha256 == index.shard_sha256
    assert again.notes == index.notes
    assert (again.samples == index.samples).all()
    assert [again.restarts_of(i).tolist() for i in range(3)] == [[0, 1], [2, 3], [4, 5]]
    assert [again.columns["label"].value(i) for i in range(3)] == [0, 1, 2]
    assert [again.columns["boxes"].value(i).shape for i in range(3)] == [(0, 4), (1, 4), (2, 4)]
    assert [again.columns["text"].value(i) for i in range(3)] == ["", "ä", "ää"]
    assert index_file.to_bytes(again) == index_file.to_bytes(index)


def test_the_first_bytes_are_those_of_the_specification() -> None:
    data = index_file.to_bytes(an_index())
    assert data[:8] == b"ABRINDEX"
    version, num_sections = struct.unpack_from("<II", data, 8)
    assert (version, num_sections) == (1, 5 + 3 + 2)  # the fixed ones, three columns, two tables of shapes
    assert struct.unpack_from("<QQQQQ", data, 16) == (3, 40, 50, 10_000, len(data))
    name, kind, offset, size = struct.unpack_from("<48s8sQQ", data, 96)
    assert (name.rstrip(b"\0"), kind.rstrip(b"\0")) == (b"columns", b"json")
    assert offset % 64 == 0 and data[offset : offset + 2] == b"[{" and data[offset + size - 2 : offset + size] == b"}]"


def test_long_segments_make_a_wide_restart_table() -> None:
    index = an_index(1)
    wide = Index(**{**index.__dict__, "restarts": np.array([70_000, 5], "<u4")})
    assert index_file.from_bytes(index_file.to_bytes(wide), "x").restarts_of(0).tolist() == [70_000, 5]


def test_every_changed_byte_of_an_index_is_named() -> None:
    data = index_file.to_bytes(an_index())
    for place in range(len(data)):
        broken = bytearray(data)
        broken[place] ^= 0x40
        with pytest.raises(DataError, match=r"some\.index.*(bytes|version)"):
            index_file.from_bytes(bytes(broken), "some.index")


def test_damage_in_a_section_is_named_with_its_bytes() -> None:
    data = bytearray(index_file.to_bytes(an_index()))
    place = data.index(b"k0k1k2")
    data[place + 1] ^= 1
    with pytest.raises(
        DataError, match=f"between bytes {place} and {place + 6}: the checksum of section 'keys' is wrong"
    ):
        index_file.from_bytes(bytes(data), "x")


def test_every_shorter_index_is_refused() -> None:
    data = index_file.to_bytes(an_index())
    for size in range(len(data)):
        with pytest.raises(DataError):
            index_file.from_bytes(data[:size], "x")
    with pytest.raises(DataError):
        index_file.from_bytes(data + b"\0", "x")


def test_without_its_digests_the_index_would_be_read_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: a flip in a label."""
    data = bytearray(index_file.to_bytes(an_index()))
    label = data.index(struct.pack("<qqq", 0, 1, 2))
    data[label] ^= 4
    blind = type(
        "blind", (), {"sha256": staticmethod(lambda _: type("d", (), {"digest": lambda _: bytes(data[-32:])})())}
    )
    monkeypatch.setattr(index_file, "hashlib", blind)
    assert index_file.from_bytes(bytes(data), "x").columns["label"].value(0) == 4


def test_a_newer_version_is_not_reported_as_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "VERSION", 2)
    newer = index_file.to_bytes(an_index())
    monkeypatch.undo()
    with pytest.raises(DataError, match="has version 2"):
        index_file.from_bytes(newer, "x")


FORGERIES = {
    "a sample outside of the shard": {"offset": 9_950},
    "a sample that wraps around": {"offset": 2**64 - 50},
    "a length over all": {"length": 2**64 - 1},
    "no pixels": {"height": 0},
    "more pixels than any image has": {"height": 2**32 - 1, "width": 2**32 - 1},
    "two channels": {"channels": 2},
    "an unknown encoding": {"encoding": 99},
    "an orientation that is none": {"orientation": 9},
    "keys that end before they begin": {"key_end": 1},
    "keys without end": {"key_end": 2**63 + 5},
    "restarts without end": {"restart_end": 2**64 - 1},
}


@pytest.mark.parametrize("fields", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_index_with_right_digests_is_refused(fields: dict[str, int]) -> None:
    index = an_index()
    samples = index.samples.copy()
    for name, value in fields.items():
        samples[name][1] = value
    forged = Index(**{**index.__dict__, "samples": samples})
    with pytest.raises(DataError):
        index_file.from_bytes(index_file.to_bytes(forged), "x")


@pytest.mark.parametrize("key", ["..", "/etc", "a//b", "a.b", "../x", "", "a\0", "a\\b", "con", "a b", "ä" * 101])
def test_an_index_with_an_unsafe_key_is_refused(key: str) -> None:
    index = an_index(1)
    samples = index.samples.copy()
    samples["key_end"] = len(key.encode())
    forged = Index(**{**index.__dict__, "samples": samples, "key_bytes": key.encode()})
    with pytest.raises(DataError, match="keys are unsafe"):
        index_file.from_bytes(index_file.to_bytes(forged), "x")


def test_shapes_that_claim_more_data_than_exists_are_refused() -> None:
    index = an_index()
    shapes = np.array([[2**31, 2**31]] * 3, "<u4")
    huge = StoredColumn(ColumnType("boxes", "<f4", (None, None)), np.empty(0, "<f4"), shapes)
    forged = Index(**{**index.__dict__, "columns": {"boxes": huge}})
    with pytest.raises(DataError, match="there are 0 numbers"):
        index_file.from_bytes(index_file.to_bytes(forged), "x")
