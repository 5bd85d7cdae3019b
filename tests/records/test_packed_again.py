"""Our own data set is a source too: its content stays the same, and damaged or missing samples are not left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abreast.errors import DataError
from abreast.records import Item, Records, decode, pack
from tests.records.pieces import class_folder, items, known, photo, small_pack


def test_our_own_data_set_is_packed_again(tmp_path: Path) -> None:
    for storage in ("raw", "png"):
        pack(items(5), tmp_path / storage, storage=storage, shard_mb=0.01)
        pack(tmp_path / storage, tmp_path / f"{storage}-again", storage=storage)
        with Records(tmp_path / storage) as ours, Records(tmp_path / f"{storage}-again") as again:
            assert len(ours) == len(again) == 5
            for one, other in zip(ours, again, strict=True):
                np.testing.assert_array_equal(decode(one), decode(other))
                assert one.key == other.key
                np.testing.assert_array_equal(one.columns["boxes"], other.columns["boxes"])


def test_it_keeps_its_classes(tmp_path: Path) -> None:
    pack(class_folder(tmp_path / "in"), tmp_path / "one")
    pack(tmp_path / "one", tmp_path / "two", storage="keep")
    with Records(tmp_path / "one") as one, Records(tmp_path / "two") as two:
        assert two.class_names == ("cat", "dog") and two.column("label").tolist() == one.column("label").tolist()
        assert [bytes(sample.data) for sample in two] == [bytes(sample.data) for sample in one]


def test_its_columns_keep_type_and_value(tmp_path: Path) -> None:
    """In the tar they are JSON: float32 would become float64, a boolean or a small number another type, and NaN null."""
    columns = {
        "label": np.int32(7),
        "weight": np.float32(0.1),
        "score": np.nan,
        "flag": True,
        "small": np.uint8(3),
        "half": np.float16(0.5),
        "name": "Bär",
        "raw": b"\0\xff",
    }
    pack([Item("a", photo(8, 8), columns)], tmp_path / "one")
    pack(tmp_path / "one", tmp_path / "two", storage="keep")
    with Records(tmp_path / "one") as one, Records(tmp_path / "two") as two:
        assert one.columns == two.columns
        assert repr(one[0].columns) == repr(two[0].columns)


def test_a_damaged_sample_is_not_packed_again(tmp_path: Path) -> None:
    small_pack(tmp_path / "one", storage="png")
    with Records(tmp_path / "one") as records:
        path, index = list(records.shards())[1]
        place = int(index.samples["offset"][0])
    data = bytearray(path.read_bytes())
    data[place + 60] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"{path} is damaged: sample {index.first_sample} "):
        pack(tmp_path / "one", tmp_path / "two", storage="keep")
    summary = pack(tmp_path / "one", tmp_path / "three", storage="keep", on_error="skip")
    assert (summary.num_samples, len(summary.skipped)) == (6, 1)


def test_a_changed_label_in_the_tar_is_not_believed(tmp_path: Path) -> None:
    """A reader takes columns from the index, which has a digest; so does who packs again."""
    pack(known([Item("a", photo(8, 8), {"label": 1})]), tmp_path / "one")
    tar = tmp_path / "one" / "shard-00000.tar"
    data = bytearray(tar.read_bytes())
    data[data.index(b"a.cls") + 512] = ord("9")
    tar.write_bytes(data)
    pack(tmp_path / "one", tmp_path / "two", storage="keep")
    with Records(tmp_path / "two") as records:
        assert records.column("label").tolist() == [1]


@pytest.mark.parametrize("name", ["shard-00001.tar", "shard-00001.index"])
def test_a_missing_shard_is_named(tmp_path: Path, name: str) -> None:
    small_pack(tmp_path / "one")
    (tmp_path / "one" / name).unlink()
    with pytest.raises(DataError, match=f"cannot read .*{name}"):
        pack(tmp_path / "one", tmp_path / "two")
    assert not (tmp_path / "two").exists()


def test_an_unfinished_data_set_is_refused_as_a_source(tmp_path: Path) -> None:
    small_pack(tmp_path / "one")
    (tmp_path / "one" / "manifest.json").rename(tmp_path / "one" / "packing.json")
    with pytest.raises(DataError, match="is not completely packed"):
        pack(tmp_path / "one", tmp_path / "two")


def test_an_image_cannot_be_named_there(tmp_path: Path) -> None:
    small_pack(tmp_path / "one")
    with pytest.raises(DataError, match="image='png' means nothing for packed images"):
        pack(tmp_path / "one", tmp_path / "two", image="png")
