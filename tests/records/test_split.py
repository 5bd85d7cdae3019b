"""Parts of a source become data sets of their own: drawn by key, or those that the source has."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from abreast.errors import DataError
from abreast.records import Records, pack, verify
from abreast.records.packing.split import Draw, split_of
from tests.harness.crashes import Failing
from tests.records.pieces import class_folder, contents, items, known, photo
from tests.records.shards import KINDS, samples, sources, write_tar


def keys(folder: Path) -> list[str]:
    with Records(folder) as records:
        return [sample.key for sample in records]


def test_parts_are_drawn_by_key(tmp_path: Path) -> None:
    source = class_folder(tmp_path / "in", per_class=20)
    summary = pack(source, tmp_path / "out", split="train=0.8,val=0.2", shard_mb=0.02)
    assert {name: part.num_samples for name, part in summary.parts.items()} == {"train": 33, "val": 7}
    assert summary.num_samples == 40 and summary.num_shards > 4
    train, val = keys(tmp_path / "out" / "train"), keys(tmp_path / "out" / "val")
    assert sorted(train + val) == sorted(f"{name}/{i}" for name in ("cat", "dog") for i in range(20))
    for part in ("train", "val"):
        with Records(tmp_path / "out" / part) as records:
            assert records.class_names == ("cat", "dog")
            assert all(sample.columns["label"] == sample.key.startswith("dog") for sample in records)
        assert verify(tmp_path / "out" / part) == []


def test_a_key_stays_in_its_part_when_others_come(tmp_path: Path) -> None:
    draw = Draw({"train": 0.9, "val": 0.1})
    parts = {f"{i:05d}": draw.part(f"{i:05d}") for i in range(10_000)}
    assert 900 < list(parts.values()).count("val") < 1100  # 1000, give or take three times 30
    assert draw.part("00007") == Draw({"train": 0.9, "val": 0.1}, seed=0).part("00007")
    other = Draw({"train": 0.9, "val": 0.1}, seed=1)
    assert 1600 < sum(other.part(key) != part for key, part in parts.items()) < 2000  # 2 x 0.9 x 0.1 x 10,000 = 1800


def test_the_draw_of_a_key_never_changes() -> None:
    """Data sets that were split are added to by later versions too."""
    draw = Draw({"a": 0.5, "b": 0.25, "c": 0.25}, seed=7)
    assert "".join(draw.part(str(i)) for i in range(24)) == "aaabaaaaaaaacaaaaacaaaab"


@pytest.mark.parametrize(
    ("split", "why"),
    [
        ("train=0.9,val=0.2", "not valid shares: train=0.9, val=0.2\nhint: give shares above 0 whose sum is 1"),
        ("train=1,val=0", "these are not valid shares"),
        ({"train": float("nan"), "val": 0.5}, "these are not valid shares"),
        ("train=x,val=1", "this is not a valid split"),
        ("train=0.5,val", "this is not a valid split"),
        ("train=0.5,train=0.5", "named twice"),
        ("train,train", "these are not valid names of parts"),
        ("", "these are not valid names of parts"),
        ("a/b=1", "these are not valid names of parts: 'a/b'"),
        ({"..": 1.0}, "these are not valid names of parts"),
    ],
)
def test_an_invalid_split_is_refused(split: Any, why: str) -> None:
    with pytest.raises(DataError, match=why):
        split_of(split)


def test_folders_of_parts_are_taken_by_name(tmp_path: Path) -> None:
    for name, count in (("train", 3), ("val", 2)):
        class_folder(tmp_path / "in" / name, per_class=count)
    summary = pack(tmp_path / "in", tmp_path / "out", split=["train", "val"])
    assert [part.num_samples for part in summary.parts.values()] == [6, 4]
    (tmp_path / "in" / "val" / "zebra").mkdir()
    with pytest.raises(DataError, match="train and val have different classes: 'zebra'\nhint: "):
        pack(tmp_path / "in", tmp_path / "other", split="train,val")
    with pytest.raises(DataError, match="has no folder test, and no shards"):
        pack(tmp_path / "in", tmp_path / "other", split="train,test")


def test_shards_of_parts_are_taken_by_how_their_names_begin(tmp_path: Path) -> None:
    for name, begin in (("train-000.tar", 0), ("train-001.tar", 3), ("val.tar", 6)):
        write_tar(tmp_path / name, samples(3, begin))
    summary = pack(tmp_path, tmp_path.with_name("packed"), split="train,val")
    assert [part.num_samples for part in summary.parts.values()] == [6, 3]


def test_a_shard_belongs_to_one_part_only(tmp_path: Path) -> None:
    """A shard belongs to the longer name; otherwise held-out samples would be trained on."""
    for name, begin in (("train-000.tar", 0), ("train_val-000.tar", 3), ("train_valid.tar", 5)):
        write_tar(tmp_path / name, samples(2, begin))
    for split in ("train,train_val", "train_val,train"):
        pack(tmp_path, tmp_path.with_name(split), split=split)
        assert [key[-1] for key in keys(tmp_path.with_name(split) / "train")] == list("0156")
        assert [key[-1] for key in keys(tmp_path.with_name(split) / "train_val")] == list("34")


def test_a_dictionary_has_parts(tmp_path: Path) -> None:
    parts = {
        name: (np.stack([photo(8, 8, seed=i) for i in range(count)]), np.arange(count))
        for name, count in [("a", 2), ("b", 3)]
    }
    summary = pack(parts, tmp_path / "out", split="a,b")
    assert [part.num_samples for part in summary.parts.values()] == [2, 3]
    with pytest.raises(DataError, match="there is no part 'c'\nhint: the parts are: a, b"):
        pack(parts, tmp_path / "other", split="a,c")


def test_an_iterable_is_not_split(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="an iterable cannot be split"):
        pack(items(4), tmp_path / "out", split={"a": 0.5, "b": 0.5})
    with pytest.raises(DataError, match="only a folder or a dictionary can have parts named a, b"):
        pack(items(4), tmp_path / "out", split="a,b")
    assert not (tmp_path / "out").exists()


def test_a_part_without_an_image_is_an_error_with_advice(tmp_path: Path) -> None:
    hint = "hint: give the part a larger share, or another split_seed"
    with pytest.raises(DataError, match=f"no image to pack into .*out/b\n{hint}"):
        pack(known(items(1)), tmp_path / "out", split={"a": 0.99, "b": 0.01})


def test_other_parts_for_the_same_folder_are_refused(tmp_path: Path) -> None:
    source = class_folder(tmp_path / "in")
    pack(source, tmp_path / "out", split="train=0.5,val=0.5")
    before = contents(tmp_path / "out")
    assert pack(source, tmp_path / "out", split="train=0.5,val=0.5").num_now == 0
    with pytest.raises(DataError, match="begun with split="):
        pack(source, tmp_path / "out", split="train=0.6,val=0.4")
    with pytest.raises(DataError, match="begun with split="):
        pack(source, tmp_path / "out", split="train=0.5,val=0.5", split_seed=1)
    with pytest.raises(DataError, match="holds more than the parts train, test: val"):
        pack(source, tmp_path / "out", split="train=0.5,test=0.5")
    with pytest.raises(DataError, match="not empty"):
        pack(source, tmp_path / "out")
    assert contents(tmp_path / "out") == before


def test_reading_all_parts_at_once_is_refused_with_their_names(tmp_path: Path) -> None:
    pack(class_folder(tmp_path / "in"), tmp_path / "out", split="train=0.5,val=0.5")
    for read in (Records, verify):
        with pytest.raises(DataError, match=r"hint: name one of its parts: .*out/train"):
            read(tmp_path / "out")


@pytest.mark.in_turn
@pytest.mark.parametrize("split", [None, "train=0.7,val=0.3"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_source_goes_on_after_a_stop_to_the_same_bytes(tmp_path: Path, kind: str, split: str | None) -> None:
    source = sources(tmp_path)[kind]
    settings: dict[str, Any] = {"storage": "raw", "shard_mb": 0.006, "split": split}
    pack(source, tmp_path / "whole", threads=4, **settings)
    whole = contents(tmp_path / "whole")
    num_stops = num_again = 0
    for at in (12, 30, 47, 64):
        with mock.patch("abreast.records.packing.packer.Files", return_value=Failing(at, errno.EIO)):
            try:
                pack(source, tmp_path / str(at), threads=1, **settings)
            except DataError:
                num_stops += 1
        num_again += pack(source, tmp_path / str(at), threads=1, **settings).num_now
        assert contents(tmp_path / str(at)) == whole
    assert num_stops > 1 and num_again < 20 * num_stops


@pytest.mark.parametrize("kind", KINDS)
def test_parts_together_are_the_whole(tmp_path: Path, kind: str) -> None:
    source = sources(tmp_path)[kind]
    pack(source, tmp_path / "whole", storage="raw")
    pack(source, tmp_path / "out", storage="raw", split="a=0.5,b=0.5")
    with Records(tmp_path / "whole") as whole:
        found = {sample.key: bytes(sample.data) for sample in whole}
    parts: dict[str, bytes] = {}
    for name in "ab":
        with Records(tmp_path / "out" / name) as records:
            part = {sample.key: bytes(sample.data) for sample in records}
            assert part and not parts.keys() & part.keys()
            parts |= part
    assert parts == found
