"""Other tools read our shards as tars and as WebDataset's."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.records import Item, Records, decode, pack
from abreast.records.packing.prepare import Storage
from tests.records import plain_reader
from tests.records.pieces import contents, file_of, items, photo, small_pack


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    small_pack(tmp_path / "out", 8, storage="png")
    paths = sorted((tmp_path / "out").glob("*.tar"))
    assert len(paths) > 1
    return paths


def test_the_tar_command_reads_our_shards(shards: list[Path], tmp_path: Path) -> None:
    for shard in shards:
        subprocess.run(["tar", "-xf", str(shard), "-C", str(tmp_path)], check=True, timeout=60)
    with Records(shards[0].parent) as records:
        for sample in records:
            assert (tmp_path / f"{sample.key}.png").read_bytes() == bytes(sample.data)
            assert int((tmp_path / f"{sample.key}.cls").read_text()) == sample.columns["label"]


def test_the_index_points_at_the_members_of_the_tar(shards: list[Path]) -> None:
    with Records(shards[0].parent) as records:
        for path, index in records.shards():
            with tarfile.open(path) as tar:
                images = [member for member in tar if member.name.endswith(".png")]
            assert [member.offset_data for member in images] == index.samples["offset"].tolist()
            assert [member.size for member in images] == index.samples["length"].tolist()
            assert all(member.isreg() and member.mtime == 0 and member.uid == 0 for member in images)


# In a process of its own: it imports PyTorch, which pytest must not.
_WEBDATASET = """
import pickle, sys
import webdataset

dataset = webdataset.WebDataset(sys.argv[1:], shardshuffle=False).decode("rgb8")
sys.stdout.buffer.write(pickle.dumps([{name: sample[name] for name in sample if name != "__url__"} for sample in dataset]))
"""


def test_webdataset_reads_our_shards(shards: list[Path]) -> None:
    command = [sys.executable, "-W", "ignore", "-c", _WEBDATASET, *map(str, shards)]
    found: list[dict[str, Any]] = pickle.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    with Records(shards[0].parent) as records:
        assert [sample["__key__"] for sample in found] == [sample.key for sample in records]
        for theirs, ours in zip(found, records, strict=True):
            np.testing.assert_array_equal(theirs["png"], decode(ours))
            np.testing.assert_array_equal(theirs["boxes.npy"], ours.columns["boxes"])
            assert (theirs["cls"], theirs["json"]) == (ours.columns["label"], {"text": ours.columns["text"]})


def test_long_names_are_read_by_tar(tmp_path: Path) -> None:
    key = "ordner/" + "ä" * 90
    pack([Item(key, photo(4, 4), {"a" * 32: np.zeros(2)})], tmp_path / "out", storage="raw")
    with tarfile.open(tmp_path / "out" / "shard-00000.tar") as tar:
        assert tar.getnames() == [f"{key}.npy", f"{key}.{'a' * 32}.npy"]
    with Records(tmp_path / "out") as records:
        np.testing.assert_array_equal(decode(records[0]), photo(4, 4))


def test_raw_pixels_are_files_of_numpy(tmp_path: Path) -> None:
    pack(items(1), tmp_path / "out", storage="raw")
    with tarfile.open(tmp_path / "out" / "shard-00000.tar") as tar:
        file = tar.extractfile("group/000.npy")
        assert file is not None
        (tmp_path / "a.npy").write_bytes(file.read())
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy", allow_pickle=False), items(1)[0].image)


def test_two_packs_of_the_same_are_the_same(tmp_path: Path) -> None:
    for name in ("a", "b"):
        small_pack(tmp_path / name, storage="jpeg")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("storage", ["raw", "jpeg", "keep"])
def test_a_reader_written_from_the_specification_reads_the_same(tmp_path: Path, storage: Storage) -> None:
    samples = items(7)
    if storage == "keep":
        samples = [Item(item.key, file_of(item.image, "WEBP"), item.columns) for item in samples]  # type: ignore[arg-type]
    pack(samples, tmp_path / "out", storage=storage, shard_mb=0.01)
    found = list(plain_reader.samples(tmp_path / "out"))
    with Records(tmp_path / "out") as records:
        assert len(found) == len(records)
        for theirs, ours in zip(found, records, strict=True):
            assert (theirs["number"], theirs["key"], theirs["data"]) == (ours.number, ours.key, bytes(ours.data))
            assert (theirs["size"], theirs["encoding"]) == ((ours.height, ours.width, ours.channels), ours.encoding)
            assert theirs["num_restarts"] == len(ours.restarts)
            assert theirs["columns"] == {
                "label": [ours.columns["label"]],
                "boxes": ours.columns["boxes"].ravel().tolist(),
                "text": ours.columns["text"],
            }


def test_that_reader_sees_every_changed_byte_too(tmp_path: Path) -> None:
    small_pack(tmp_path / "out", 1)
    for path in sorted((tmp_path / "out").iterdir()):
        data = path.read_bytes()
        for place in range(0, len(data), 17):
            path.write_bytes(data[:place] + bytes([data[place] ^ 8]) + data[place + 1 :])
            with pytest.raises((AssertionError, ValueError, KeyError)):
                list(plain_reader.samples(tmp_path / "out"))
        path.write_bytes(data)
