"""`split_by`: each class has its share in each part."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from abreast import cli
from abreast.errors import DataError
from abreast.records import Records, pack
from abreast.records.packing.proportions import dealt
from abreast.records.sources.arrays import Arrays
from tests.records.pieces import class_folder, contents, items, known, photo
from tests.records.test_labels import csv_of, parquet_of


def parts_of(folder: Path, names: str, column: str = "label") -> dict[str, Counter[Any]]:
    """The number of images of each class, by part."""
    found = {}
    for name in names.split(","):
        with Records(folder / name) as records:
            found[name] = Counter(str(sample.columns[column]) for sample in records)
    return found


def keys_of(folder: Path, name: str) -> list[str]:
    with Records(folder / name) as records:
        return [sample.key for sample in records]


def arrays(counts: dict[str, int]) -> dict[str, Any]:
    words = np.array([word for word, count in counts.items() for _ in range(count)])
    return {"image": np.stack([photo(4, 4, seed=i) for i in range(len(words))]), "species": words}


def test_each_class_has_its_share_in_each_part(tmp_path: Path) -> None:
    """A draw by key alone gives 33 and 7 of these 40, and the classes 17 and 16."""
    source = class_folder(tmp_path / "in", per_class=20)
    pack(source, tmp_path / "out", split="train=0.8,val=0.2", split_by="label")
    assert parts_of(tmp_path / "out", "train,val") == {"train": {"0": 16, "1": 16}, "val": {"0": 4, "1": 4}}
    train, val = keys_of(tmp_path / "out", "train"), keys_of(tmp_path / "out", "val")
    assert len(train) + len(val) == 40 == len({*train, *val})


def test_rare_classes_are_spread_over_the_parts(tmp_path: Path) -> None:
    counts = {"a": 37, "b": 11, "c": 6, "d": 1, "e": 1}
    pack(arrays(counts), tmp_path / "out", label="species", split="x=0.6,y=0.3,z=0.1", split_by="species")
    found = parts_of(tmp_path / "out", "x,y,z", "species")
    for part, share in (("x", 0.6), ("y", 0.3), ("z", 0.1)):
        assert abs(found[part].total() - share * 56) <= 1
        assert all(abs(found[part][word] - share * count) < 2 for word, count in counts.items()), found
    assert sum(found.values(), Counter()) == counts


def test_the_same_seed_gives_the_same_parts(tmp_path: Path) -> None:
    source = arrays({"a": 20, "b": 20})
    settings: dict[str, Any] = {"split": "x=0.5,y=0.5", "split_by": "species"}
    for name, seed in (("one", 3), ("again", 3), ("other", 4)):
        pack(source, tmp_path / name, split_seed=seed, **settings)
    assert contents(tmp_path / "one") == contents(tmp_path / "again")
    assert keys_of(tmp_path / "one", "x") != keys_of(tmp_path / "other", "x")
    with pytest.raises(DataError, match="was begun with split_by='species', and this command has split_by=None"):
        pack(source, tmp_path / "one", split_seed=3, split="x=0.5,y=0.5")


def test_a_source_is_identified_once(tmp_path: Path) -> None:
    """The identity of arrays is a digest of all of their bytes."""
    identity = mock.PropertyMock(return_value={"kind": "arrays"})
    with mock.patch.object(Arrays, "identity", identity):
        pack(arrays({"a": 4, "b": 4}), tmp_path / "out", split="x=0.5,y=0.5", split_by="species")
    assert identity.call_count == 1


def test_every_kind_of_source_is_split(tmp_path: Path) -> None:
    words = ["cat", "dog"] * 10
    sources = {
        "csv": csv_of(tmp_path / "in", species=words),
        "parquet": parquet_of(tmp_path / "t.parquet", species=words),
        "items": known(items(20)),
    }
    pack(sources["csv"], tmp_path / "whole")
    sources["records"] = tmp_path / "whole"
    for kind, source in sources.items():
        column = "label" if kind == "items" else "species"
        if kind == "items":  # the columns of an iterable are not known before
            with pytest.raises(DataError, match="there is no column 'label' to split by"):
                pack(source, tmp_path / kind, split="x=0.7,y=0.3", split_by=column)
            continue
        pack(source, tmp_path / kind, split="x=0.7,y=0.3", split_by=column)
        assert parts_of(tmp_path / kind, "x,y", column) == {"x": {"cat": 7, "dog": 7}, "y": {"cat": 3, "dog": 3}}


def test_sets_of_tags_are_classes(tmp_path: Path) -> None:
    table = csv_of(tmp_path / "in", t=["a|b", "a", ""] * 4)
    settings: dict[str, Any] = {"label": "t", "label_separator": "|", "split": "x=0.5,y=0.5"}
    pack(table, tmp_path / "out", split_by="label", **settings)
    for part in "xy":
        with Records(tmp_path / "out" / part) as records:
            assert sorted(map(tuple, records.column("label").tolist())) == [(0, 0)] * 2 + [(1, 0)] * 2 + [(1, 1)] * 2


def test_a_part_that_lacks_a_class_is_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack(arrays({"a": 9, "b": 1}), tmp_path / "out", split="x=0.8,y=0.2", split_by="species")
    assert "no image of 1 of 2 classes, as 'b' (1 in all)\n" in capsys.readouterr().err


def test_dealing_follows_the_shares() -> None:
    assert "".join(dealt({"a": 0.75, "b": 0.25}, 12)) == "aaba" * 3
    thirds = {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}
    assert "".join(dealt(thirds, 9)) == "abc" * 3


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"split_by": "label"}, "split_by='label' means nothing without split"),
        ({"split_by": "no", "split": "a=0.5,b=0.5"}, "no column 'no' to split by\nhint: there are: label"),
        ({"split_by": "label", "split": "cat,dog"}, "means nothing for the parts that a source has"),
    ],
)
def test_a_split_by_nothing_is_refused(tmp_path: Path, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(DataError, match=why):
        pack(class_folder(tmp_path / "in"), tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


def test_a_column_without_classes_is_refused(tmp_path: Path) -> None:
    source = {"image": np.zeros((120, 4, 4), np.uint8), "x": np.arange(120) / 7}
    with pytest.raises(DataError, match="column 'x' has 120 different values for 120 images"):
        pack(source, tmp_path / "out", split="a=0.5,b=0.5", split_by="x")
    with pytest.raises(DataError, match="an iterable cannot be split"):
        pack(items(4), tmp_path / "out", split="a=0.5,b=0.5", split_by="label")


def test_the_command_splits_by_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = class_folder(tmp_path / "in", per_class=10)
    code = cli.main(["pack", str(source), str(tmp_path / "out"), "--split", "train=0.8,val=0.2", "--split-by", "label"])
    assert code == 0
    capsys.readouterr()
    assert cli.main(["records", "info", str(tmp_path / "out" / "val")]) == 0
    assert "2: cat 2, dog 2" in capsys.readouterr().out
