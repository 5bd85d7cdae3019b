"""TFRecord files of examples are packed without TensorFlow; damaged and hostile ones are refused with file and byte."""

from __future__ import annotations

import contextlib
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import DataError
from abreast.records import Records, pack
from abreast.records.sources.choose import source_of
from abreast.records.sources.example import read_example
from tests.records.shards import example, field, framed, jpeg, masked_crc, png, varint


def write(path: Path, *examples: bytes) -> Path:
    path.write_bytes(b"".join(map(framed, examples)))
    return path


def image_example(i: int, **more: Any) -> bytes:
    return example(
        {
            "image/encoded": [png(i)],
            "image/class/label": [i],
            "image/class/text": [f"tier {i} ä".encode()],
            "image/object/bbox/xmin": [0.5] * (i % 3),
            "image/height": [4],
            **more,
        }
    )


def columns_of(path: Path, **settings: Any) -> list[dict[str, Any]]:
    found = []
    for item in source_of(path, **settings).items(0):
        wrong = [str(each) for each in (item.image, *item.columns.values()) if isinstance(each, DataError)]
        plain = {name: np.asarray(value).tolist() for name, value in item.columns.items()}
        found.append({"wrong": wrong} if wrong else plain)
    return found


def test_examples_give_images_and_columns(tmp_path: Path) -> None:
    write(tmp_path / "train-00000-of-00001", *(image_example(i) for i in range(4)))
    pack(tmp_path / "train-00000-of-00001", tmp_path / "out", storage="keep")
    with Records(tmp_path / "out") as records:
        assert [sample.key for sample in records] == [f"train-00000-of-00001/{i:08d}" for i in range(4)]
        assert [bytes(sample.data) for sample in records] == [png(i) for i in range(4)]
        assert records.column("label").tolist() == [0, 1, 2, 3]
        assert [sample.columns["class_text"] for sample in records] == [f"tier {i} ä" for i in range(4)]
        assert [sample.columns["object_bbox_xmin"].tolist() for sample in records] == [[], [0.5], [0.5, 0.5], []]
        assert records[0].columns["height"] == 4


def test_a_folder_of_shards_is_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("train-00001-of-00002", "train-00000-of-00002"):
        write(tmp_path / name, image_example(int(name[10])))
    (tmp_path / "labels.txt").write_text("not a shard")
    assert [found["label"] for found in columns_of(tmp_path)] == [0, 1]


def test_a_file_is_known_by_how_it_begins(tmp_path: Path) -> None:
    assert len(columns_of(write(tmp_path / "data.bin", image_example(0)))) == 1
    (tmp_path / "other.bin").write_bytes(b"nothing known")
    with pytest.raises(DataError, match="both by its name and by its first bytes"):
        source_of(tmp_path / "other.bin")


@pytest.mark.parametrize("name", ["image", "pixels", "image_raw"])
def test_the_image_is_found_by_its_bytes(tmp_path: Path, name: str) -> None:
    write(tmp_path / "a.tfrecord", example({name: [jpeg()], "x": [1]}))
    assert columns_of(tmp_path / "a.tfrecord") == [{"x": 1}]


def test_the_image_may_be_named(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", example({"left": [jpeg()], "right": [png()]}))
    with pytest.raises(DataError, match=r"several features hold an image.*\nhint: .*--image left"):
        source_of(tmp_path / "a.tfrecord")
    assert columns_of(tmp_path / "a.tfrecord", image="right") == [{"left": jpeg()}]
    with pytest.raises(DataError, match="no record has a feature 'middle'\nhint: the features are: left, right"):
        source_of(tmp_path / "a.tfrecord", image="middle")
    write(tmp_path / "b.tfrecord", example({"x": [1], "y": [b"text"]}))
    with pytest.raises(DataError, match="no feature holds an image, among: x, y"):
        source_of(tmp_path / "b.tfrecord")


def test_features_of_every_kind_are_columns(tmp_path: Path) -> None:
    features: dict[str, Any] = {
        "a": [-1],
        "b": [2**62, -(2**63)],
        "c": [0.5],
        "d": [1.0, 2.0],
        "e": [b"\xff\0"],
        "f": [b"text"],
    }
    write(tmp_path / "a.tfrecord", example({"image": [png()], **features}))
    pack(tmp_path / "a.tfrecord", tmp_path / "out")
    with Records(tmp_path / "out") as records:
        found = {name: np.asarray(value).tolist() for name, value in records[0].columns.items() if name != "e"}
        assert found == {"a": -1, "b": [2**62, -(2**63)], "c": 0.5, "d": [1.0, 2.0], "f": "text"}
        assert records[0].columns["e"] == b"\xff\0"
        assert [column.type for column in records.columns] == ["<i8", "<i8", "<f4", "<f4", "bytes", "text"]


@pytest.mark.parametrize(
    ("features", "why"),
    [
        ({"x": [1, 2]}, "'x' has 2 values, and had one"),
        ({"x": [1.5]}, "'x' is of float, and was of int64"),
        ({"x": []}, "'x' has no value"),
        ({}, "'x' has no value"),
        ({"x": [1], "y": [2]}, "the first records have no feature 'y'"),
    ],
)
def test_a_record_that_is_not_as_the_first_ones_is_refused_by_name(
    tmp_path: Path, features: dict[str, Any], why: str
) -> None:
    first = [example({"image": [png(i)], "x": [i]}) for i in range(100)]
    write(tmp_path / "a.tfrecord", *first, example({"image": [png(200)], **features}))
    with pytest.raises(DataError, match=f"number 100 of the source.*{why}"):
        pack(tmp_path / "a.tfrecord", tmp_path / "stop")
    summary = pack(tmp_path / "a.tfrecord", tmp_path / "out", on_error="skip")
    assert summary.num_samples == 100 and why in summary.skipped[0].text


def test_a_feature_of_several_texts_must_be_left_out(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", image_example(0, **{"image/object/class/text": [b"cat", b"dog"]}))
    with pytest.raises(DataError, match=r"'object_class_text' has 2 values of bytes.*\nhint: leave it out"):
        pack(tmp_path / "a.tfrecord", tmp_path / "stop")
    pack(tmp_path / "a.tfrecord", tmp_path / "out", columns=["label"])
    with Records(tmp_path / "out") as records:
        assert dict(records[0].columns) == {"label": 0}


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = framed(image_example(0)) + framed(image_example(1))
    one = len(framed(image_example(0)))
    path = tmp_path / "a.tfrecord"
    for size in range(1, len(whole)):
        if size != one:
            path.write_bytes(whole[:size])
            with pytest.raises(DataError, match=r"a\.tfrecord is cut off: at byte \d+"):
                list(source_of(path).items(0))


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    whole = framed(image_example(0)) + framed(image_example(1))
    path = tmp_path / "a.tfrecord"
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        with pytest.raises(DataError, match=r"a\.tfrecord.*byte \d+"):  # noqa: PT012
            for item in source_of(path).items(0):
                if isinstance(item.image, DataError):
                    raise item.image


def test_a_damaged_record_may_be_skipped(tmp_path: Path) -> None:
    whole = bytearray(framed(image_example(0)) + framed(image_example(1)) + framed(image_example(2)))
    whole[len(framed(image_example(0))) + 20] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(whole)
    summary = pack(tmp_path / "a.tfrecord", tmp_path / "out", on_error="skip")
    assert summary.num_samples == 2
    assert "its checksum is wrong" in summary.skipped[0].text


def test_a_giant_length_allocates_nothing(tmp_path: Path) -> None:
    size = struct.pack("<Q", 2**62)
    (tmp_path / "a.tfrecord").write_bytes(size + masked_crc(size) + bytes(100))
    with pytest.raises(DataError, match=r"cut off: at byte 0 there should be 46116\d+ more"):
        source_of(tmp_path / "a.tfrecord")


def test_a_compressed_file_is_refused(tmp_path: Path) -> None:
    import gzip
    import zlib

    for packer in (gzip.compress, zlib.compress):
        (tmp_path / "a.tfrecord").write_bytes(packer(framed(image_example(0))))
        with pytest.raises(DataError, match="hint: decompress it first"):
            source_of(tmp_path / "a.tfrecord")


def test_every_shorter_example_is_refused() -> None:
    data = image_example(2)
    whole = read_example(data)
    for size in range(len(data)):
        if not size:
            assert read_example(b"") == {}
            continue
        with pytest.raises(DataError, match=r"not a valid tf\.train\.Example: at byte"):
            read_example(data[:size])
    assert [name for name, each in whole.items() if each.kind == "int64"] == ["image/class/label", "image/height"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (field(2, b""), "a field 2, which an Example does not have"),
        (varint(1 << 3 | 2) + varint(2**63), "a field of 9223372036854775808 bytes"),
        (varint(1 << 3 | 3), "a wire type 3"),
        (b"\xff" * 11, "a number does not end"),
        (field(1, field(1, field(1, b"\xff") + field(2, b""))), "a name that is not valid UTF-8"),
        (field(1, field(1, field(2, field(4, b"")))), "a list 4"),
        (field(1, field(1, field(2, field(1, b"") + field(1, b"")))), "a second list"),
        (field(1, field(1, field(2, field(2, field(1, b"abc"))))), "a run of float32 in 3 bytes"),
        (field(1, field(1, field(2, field(3, field(1, b"\xff"))))), "a number that does not end"),
        (field(1, field(1, field(2, field(3, field(1, b"\xff" * 10 + b"\1"))))), "a number that does not end"),
        (field(1, field(1, field(2, field(3, field(1, bytes(2**20 + 1)))))), "more than 1048576 numbers"),
        (field(1, field(1, field(2, field(1, field(1, b"") * 70_000)))), "more than 65536 fields"),
        (field(1, b"".join(field(1, field(1, b"%d" % i)) for i in range(1100))), "more than 1024 features"),
    ],
)
def test_a_record_that_is_not_an_example_is_refused_with_its_place(data: bytes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        read_example(data)


def test_numbers_may_have_a_field_each() -> None:
    """As writers of the second version of protocol buffers wrote it."""
    integers = field(3, b"".join(varint(1 << 3) + varint(number) for number in (5, -5)))
    floats = field(2, b"".join(varint(1 << 3 | 5) + struct.pack("<f", number) for number in (0.5, 2)))
    entries = [field(1, field(1, name) + field(2, data)) for name, data in ((b"i", integers), (b"f", floats))]
    found = read_example(field(1, b"".join(entries)))
    assert (list(found["i"].values), list(found["f"].values)) == ([5, -5], [0.5, 2.0])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_are_read_as_they_were_written(numbers: list[int]) -> None:
    assert list(read_example(example({"x": numbers}))["x"].values) == numbers


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8), st.binary(max_size=64))
def test_damaged_examples_are_refused_or_read(changes: list[tuple[int, int]], tail: bytes) -> None:
    broken = bytearray(image_example(1) + tail)
    for place, value in changes:
        broken[place % len(broken)] = value
    with contextlib.suppress(DataError):
        assert isinstance(read_example(bytes(broken)), dict)


def test_hostile_records_take_little_memory() -> None:
    """A record of 8 MB that holds as many values as it can: refused, within 100 MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    empty = field(1, field(1, field(2, field(1, b"\x0a\x00" * 4_000_000))))
    many = field(1, field(1, field(2, field(3, b"\x08\x01" * 4_000_000))))
    for data in (empty, many):
        with pytest.raises(DataError, match="a list of more than"):
            read_example(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


# In a process of its own: pytest must not import TensorFlow.
_WRITE = """
import sys
import tensorflow as tf
from tests.records.shards import png

def feature(**lists):
    return tf.train.Feature(**lists)

with tf.io.TFRecordWriter(sys.argv[1]) as writer:
    for i in range(5):
        features = {
            "image/encoded": feature(bytes_list=tf.train.BytesList(value=[png(i)])),
            "image/class/label": feature(int64_list=tf.train.Int64List(value=[i - 2])),
            "image/class/text": feature(bytes_list=tf.train.BytesList(value=[f"class {i}".encode()])),
            "image/object/bbox/xmin": feature(float_list=tf.train.FloatList(value=[0.25] * i)),
            "image/object/class/label": feature(int64_list=tf.train.Int64List(value=[2**40] * i)),
        }
        writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
"""


@pytest.mark.in_turn
@pytest.mark.tensorflow
def test_records_that_tensorflow_writes_are_packed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WRITE, str(tmp_path / "a.tfrecord")]
    subprocess.run(command, check=True, timeout=200, stderr=subprocess.DEVNULL)
    pack(tmp_path / "a.tfrecord", tmp_path / "out", storage="keep")
    with Records(tmp_path / "out") as records:
        assert [bytes(sample.data) for sample in records] == [png(i) for i in range(5)]
        assert records.column("label").tolist() == [-2, -1, 0, 1, 2]
        assert [sample.columns["class_text"] for sample in records] == [f"class {i}" for i in range(5)]
        assert [sample.columns["object_bbox_xmin"].tolist() for sample in records] == [[0.25] * i for i in range(5)]
        assert [sample.columns["object_class_label"].tolist() for sample in records] == [[2**40] * i for i in range(5)]
