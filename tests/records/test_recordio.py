"""RecordIO files of MXNet are packed; the writer here is made from the published format."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.errors import DataError
from abreast.records import Records, pack
from abreast.records.sources.choose import source_of
from tests.records.pieces import file_of, photo
from tests.records.shards import MAGIC, im2rec, png, recordio


def write(path: Path, *records: bytes, index: bool = False) -> Path:
    framed = [recordio(record) for record in records]
    path.write_bytes(b"".join(framed))
    if index:
        begins = np.cumsum([0, *map(len, framed[:-1])]).tolist()
        path.with_suffix(".idx").write_text("".join(f"{10 * i}\t{begin}\n" for i, begin in enumerate(begins)))
    return path


def labels_of(path: Path) -> list[Any]:
    found = []
    for item in source_of(path).items(0):
        assert not isinstance(item.image, DataError), item.image
        value = item.columns["label"]
        found.append(str(value) if isinstance(value, DataError) else np.asarray(value).tolist())
    return found


@pytest.mark.parametrize("index", [True, False])
def test_records_give_images_labels_and_numbers(tmp_path: Path, index: bool) -> None:
    write(tmp_path / "train.rec", *(im2rec(png(i), [i % 2], 100 + i) for i in range(5)), index=index)
    pack(tmp_path / "train.rec", tmp_path / "out", storage="keep")
    with Records(tmp_path / "out") as records:
        assert [sample.key for sample in records] == [f"train/{i:08d}" for i in range(5)]
        assert [bytes(sample.data) for sample in records] == [png(i) for i in range(5)]
        assert records.column("label").tolist() == [0, 1, 0, 1, 0]
        assert records.column("id").tolist() == [100, 101, 102, 103, 104]
        assert {column.name: column.type for column in records.columns} == {"label": "<i8", "id": "<u8"}


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ([[1.0], [2.0]], [1, 2]),
        ([[1.0], [2.5]], [1.0, 2.5]),
        ([[1.0, 2.0], [3.0, 4.0]], [[1, 2], [3, 4]]),
        ([[1.0, 0.5], [], [3.0]], [[1.0, 0.5], [0.0], [3.0]]),  # flag 0 is one label, in the header
    ],
)
def test_labels_are_numbers_or_arrays(tmp_path: Path, labels: list[list[float]], found: list[Any]) -> None:
    records = [im2rec(png(i), each or [0.0], i, array=len(each) > 0) for i, each in enumerate(labels)]
    assert labels_of(write(tmp_path / "a.rec", *records)) == found


def test_a_record_in_which_the_magic_number_stands_is_put_together(tmp_path: Path) -> None:
    """The writer cuts it there: at the beginning, at the end, twice in a row, and not where it begins at no fourth byte."""
    image = file_of(photo(4, 5), "BMP")
    for tail in (MAGIC, b"ab" + MAGIC + b"cdef", MAGIC + MAGIC, b"x" + MAGIC, MAGIC + b"abc"):
        data = image + bytes(-len(image) % 4) + tail
        write(tmp_path / "a.rec", im2rec(data, [1.0], 0), im2rec(png(), [2.0], 1))
        items = list(source_of(tmp_path / "a.rec").items(0))
        assert [item.image for item in items] == [data, png()]


def test_a_later_label_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    records = [im2rec(png(i), [1.0], i) for i in range(100)]
    write(tmp_path / "a.rec", *records, im2rec(png(), [0.5], 100), im2rec(png(), [1.0, 2.0], 101))
    found = labels_of(tmp_path / "a.rec")
    assert "the first labels are whole numbers" in found[100] and "the record has 2 labels" in found[101]


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    records = [recordio(im2rec(png(i) + bytes(-len(png(i)) % 4) + MAGIC * i, [1.0], i)) for i in range(2)]
    whole, path = b"".join(records), tmp_path / "a.rec"
    for size in range(1, len(whole)):
        if size != len(records[0]):
            path.write_bytes(whole[:size])
            with pytest.raises(DataError, match=r"a\.rec is cut off: at byte \d+"):
                list(source_of(path).items(0))


def test_changed_framing_is_refused_with_its_place(tmp_path: Path) -> None:
    records = [recordio(im2rec(png(i), [1.0], i)) for i in range(2)]
    whole, begin = b"".join(records), len(records[0])
    for place in [*range(begin, begin + 4), begin + 7]:
        broken = whole[:place] + bytes([whole[place] ^ 128]) + whole[place + 1 :]
        (tmp_path / "a.rec").write_bytes(broken)
        with pytest.raises(DataError, match=rf"a\.rec is not a whole RecordIO file: at byte {begin} "):
            list(source_of(tmp_path / "a.rec").items(0))


def test_giant_lengths_and_counts_of_labels_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.rec").write_bytes(MAGIC + struct.pack("<I", 2**29 - 1) + bytes(100))
    with pytest.raises(DataError, match="cut off: at byte 0 there should be 536870920 more"):
        source_of(tmp_path / "a.rec")
    bad = struct.pack("<IfQQ", 2**32 - 1, 0, 0, 0) + png()
    write(tmp_path / "b.rec", im2rec(png(), [1.0], 0), bad, b"short")
    summary = pack(tmp_path / "b.rec", tmp_path / "out", on_error="skip")
    assert "it claims 4294967295 labels" in summary.skipped[0].text
    assert "too few for a header" in summary.skipped[1].text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0\t5\n", " does not name the record at byte 0"),
        ("0\n", ", line 1: '0' is not a place"),
        ("0\t-1\n", ", line 1: '0 -1' is not a place"),
        ("0\t99999\n", ", line 1: '0 99999' is not a place"),
        ("0\tx\n", ", line 1: '0 x' is not a place"),
        ("0\t0\n1\t0\n", " names a record twice"),
    ],
)
def test_an_index_that_does_not_fit_is_refused(tmp_path: Path, text: str, why: str) -> None:
    write(tmp_path / "a.rec", im2rec(png(), [1.0], 0))
    (tmp_path / "a.idx").write_text(text)
    with pytest.raises(DataError, match=rf"a\.idx{why}.*\nhint: remove it"):
        pack(tmp_path / "a.rec", tmp_path / "out")


def test_a_changed_index_is_another_source(tmp_path: Path) -> None:
    write(tmp_path / "a.rec", *(im2rec(png(i), [1.0], i) for i in range(3)), index=True)
    pack(tmp_path / "a.rec", tmp_path / "out")
    index = (tmp_path / "a.idx").read_text()
    (tmp_path / "a.idx").write_text("1" + index)
    with pytest.raises(DataError, match="begun with another source"):
        pack(tmp_path / "a.rec", tmp_path / "out")


@pytest.mark.parametrize("left_out", [{0}, {2}, {4}, {3, 4}, {0, 1, 2, 3, 4}], ids=str)
def test_an_index_without_some_records_is_refused_by_name(tmp_path: Path, left_out: set[int]) -> None:
    """An index that was cut off at the end of a line."""
    write(tmp_path / "a.rec", *(im2rec(png(i), [1.0], i) for i in range(5)), index=True)
    lines = (tmp_path / "a.idx").read_text().splitlines(keepends=True)
    first = lines[min(left_out)].split()[1]
    (tmp_path / "a.idx").write_text("".join(line for i, line in enumerate(lines) if i not in left_out))
    with pytest.raises(DataError, match=rf"a\.idx does not name the record at byte {first} of the \.rec") as caught:
        pack(tmp_path / "a.rec", tmp_path / "out", on_error="skip")
    assert "hint: remove it" in str(caught.value)
    (tmp_path / "a.idx").unlink()
    assert pack(tmp_path / "a.rec", tmp_path / "other").num_samples == 5


def test_an_index_that_was_cut_off_is_refused_before_anything_is_packed(tmp_path: Path) -> None:
    write(tmp_path / "a.rec", *(im2rec(png(i), [1.0], i) for i in range(300)), index=True)
    lines = (tmp_path / "a.idx").read_text().splitlines(keepends=True)
    (tmp_path / "a.idx").write_text("".join(lines[:250]))
    with pytest.raises(DataError, match="does not name the record at"):
        source_of(tmp_path / "a.rec")


def test_an_index_that_leads_into_a_record_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.rec", *(im2rec(png(i), [1.0], i) for i in range(2)), index=True)
    with (tmp_path / "a.idx").open("a") as index:
        index.write("2\t20\n")
    with pytest.raises(DataError, match=r"a\.idx names byte 20, which is inside of the record at byte 0"):
        pack(tmp_path / "a.rec", tmp_path / "out", on_error="skip")


def test_with_an_index_the_records_after_a_damaged_one_are_packed(tmp_path: Path) -> None:
    write(tmp_path / "a.rec", *(im2rec(png(i), [i], i) for i in range(4)), index=True)
    broken = bytearray((tmp_path / "a.rec").read_bytes())
    broken[len(recordio(im2rec(png(0), [0], 0)))] ^= 1
    (tmp_path / "a.rec").write_bytes(broken)
    summary = pack(tmp_path / "a.rec", tmp_path / "out", on_error="skip")
    assert [note.key for note in summary.skipped] == ["a/00000001"]
    with Records(tmp_path / "out") as records:
        assert records.column("label").tolist() == [0, 2, 3]
