"""Words of a table become class numbers with names; several columns, and tags, become one vector."""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from abreast import cli
from abreast.errors import DataError
from abreast.records import Item, Records, pack
from abreast.records.loading import targets
from abreast.records.loading.loader import Loader
from abreast.records.reading.info import report
from tests.harness.client import RemoteError, Workers
from tests.harness.crashes import Failing
from tests.records.pieces import class_folder, contents, photo
from tests.records.shards import example, framed, png, write_tar

_ANIMALS = ["owl", "cat", "dog", "cat", "owl", "cat"]


def csv_of(folder: Path, name: str = "t.csv", **columns: list[Any]) -> Path:
    """A table of as many images as the columns have cells."""
    folder.mkdir(exist_ok=True)
    count = len(next(iter(columns.values())))
    for i in range(count):
        (folder / f"{i}.png").write_bytes(png(i))
    lines = [",".join(["path", *columns])]
    lines += [",".join([f"{i}.png", *(str(cells[i]) for cells in columns.values())]) for i in range(count)]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def parquet_of(path: Path, **columns: Any) -> Path:
    count = len(next(iter(columns.values())))
    pyarrow.parquet.write_table(pyarrow.table({"image": [png(i) for i in range(count)], **columns}), path)
    return path


def labels_of(folder: Path) -> tuple[list[Any], tuple[str, ...] | None]:
    with Records(folder) as records:
        return records.column("label").tolist(), records.class_names


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrays"])
def test_words_become_numbers_of_sorted_names(tmp_path: Path, kind: str) -> None:
    source: Any = {"image": np.stack([photo(8, 8, seed=i) for i in range(6)]), "species": np.array(_ANIMALS)}
    if kind == "csv":
        source = csv_of(tmp_path / "in", species=_ANIMALS)
    elif kind == "parquet":
        source = parquet_of(tmp_path / "t.parquet", species=_ANIMALS)
    pack(source, tmp_path / "out", label="species")
    assert labels_of(tmp_path / "out") == ([2, 0, 1, 0, 2, 0], ("cat", "dog", "owl"))
    with Records(tmp_path / "out") as records:
        assert [sample.columns["species"] for sample in records] == _ANIMALS
    assert pack(source, tmp_path / "out", label="species").num_now == 0
    with pytest.raises(DataError, match="begun with label="):
        pack(source, tmp_path / "out")


def test_a_packed_data_set_is_labelled_when_it_is_packed_again(tmp_path: Path) -> None:
    pack(csv_of(tmp_path / "in", species=_ANIMALS), tmp_path / "one")
    pack(tmp_path / "one", tmp_path / "two", label="species", shuffle_seed=1)
    with Records(tmp_path / "two") as records:
        assert [("cat", "dog", "owl")[sample.columns["label"]] for sample in records] == [
            sample.columns["species"] for sample in records
        ]


def shards_of_words(folder: Path) -> dict[str, Path]:
    """A tar and a TFRecord of twelve images; the last one of each has no label."""
    words = [*_ANIMALS, *_ANIMALS[:5], ""]
    members = [(f"{i:02d}.png", png(i)) for i in range(12)]
    members += [(f"{i:02d}.json", json.dumps({"species": word}).encode()) for i, word in enumerate(words)]
    examples = [example({"image/encoded": [png(i)], "species": [word.encode()]}) for i, word in enumerate(words)]
    (folder / "a.tfrecord").write_bytes(b"".join(map(framed, examples)))
    return {"tar": write_tar(folder / "a.tar", sorted(members)), "tfrecord": folder / "a.tfrecord"}


@pytest.mark.parametrize("kind", ["tar", "tfrecord"])
def test_words_in_shards_become_numbers_too(tmp_path: Path, kind: str) -> None:
    """The pass over them reads images, so that an empty label is an error only when its image is packed."""
    source = shards_of_words(tmp_path)[kind]
    with pytest.raises(DataError, match=r"number 11 of the source, from 0\): column 'species' is empty"):
        pack(source, tmp_path / "no", label="species")
    pack(source, tmp_path / "out", label="species", on_error="skip")
    assert labels_of(tmp_path / "out") == ([2, 0, 1, 0, 2, 0, 2, 0, 1, 0, 2], ("cat", "dog", "owl"))


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", ["csv", "parquet", "tar"])
def test_a_stopped_packing_of_words_goes_on_to_the_same_bytes(tmp_path: Path, kind: str) -> None:
    source = shards_of_words(tmp_path)["tar"] if kind == "tar" else csv_of(tmp_path / "in", species=_ANIMALS * 2)
    if kind == "parquet":
        source = parquet_of(tmp_path / "t.parquet", species=_ANIMALS * 2)
    settings: Any = {"label": "species", "split": "a=0.5,b=0.5", "split_by": "label", "on_error": "skip"}
    settings |= {"storage": "raw", "shard_mb": 0.004, "threads": 1}
    pack(source, tmp_path / "whole", **settings)
    num_stops = 0
    for at in (12, 40, 55):
        with mock.patch("abreast.records.packing.packer.Files", return_value=Failing(at, errno.EIO)):
            try:
                pack(source, tmp_path / str(at), **settings)
            except DataError:
                num_stops += 1
        pack(source, tmp_path / str(at), **settings)
        assert contents(tmp_path / str(at)) == contents(tmp_path / "whole")
    assert num_stops > 1


def test_a_column_of_another_type_in_another_part_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    parquet_of(tmp_path / "in" / "train.parquet", x=["cat", "dog"])
    parquet_of(tmp_path / "in" / "val.parquet", x=[0, 1])
    with pytest.raises(DataError, match=r"x has different types in the parts: text and int64"):
        pack(tmp_path / "in", tmp_path / "out", label="x", split="train,val")


def test_the_column_label_itself_may_be_words(tmp_path: Path) -> None:
    pack(csv_of(tmp_path / "in", label=_ANIMALS, x=[1] * 6), tmp_path / "out", label="label", columns="x")
    assert labels_of(tmp_path / "out") == ([2, 0, 1, 0, 2, 0], ("cat", "dog", "owl"))
    with Records(tmp_path / "out") as records:
        assert [column.name for column in records.columns] == ["label", "x"]


def test_the_command_labels_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = csv_of(tmp_path / "in", species=_ANIMALS), tmp_path / "out"
    assert cli.main(["pack", str(table), str(out), "--label", "species", "--columns", "species"]) == 0
    assert labels_of(out)[1] == ("cat", "dog", "owl")
    capsys.readouterr()
    assert cli.main(["records", "info", str(out)]) == 0
    assert "classes" in (said := capsys.readouterr().out) and "cat" in said


def test_all_parts_have_the_same_numbers(tmp_path: Path) -> None:
    table = csv_of(tmp_path / "in", species=["cat", "dog", "owl", "yak"] * 3)
    pack(table, tmp_path / "drawn", label="species", split="a=0.5,b=0.3,c=0.2")
    parquet_of(tmp_path / "train.parquet", species=["owl", "dog"])
    parquet_of(tmp_path / "val.parquet", species=["cat", "owl"])
    (tmp_path / "shards").mkdir()
    for name in ("train", "val"):
        (tmp_path / f"{name}.parquet").rename(tmp_path / "shards" / f"{name}.parquet")
    pack(tmp_path / "shards", tmp_path / "named", label="species", split="train,val")
    for part in "abc":
        assert labels_of(tmp_path / "drawn" / part)[1] == ("cat", "dog", "owl", "yak")
        with Loader(tmp_path / "drawn" / part, 2, size=8, targets="species", augment=False) as loader:
            assert loader.class_names == ("cat", "dog", "owl", "yak")
    assert labels_of(tmp_path / "named" / "train") == ([2, 1], ("cat", "dog", "owl"))
    assert labels_of(tmp_path / "named" / "val") == ([0, 2], ("cat", "dog", "owl"))


def test_names_of_another_data_set_give_the_same_numbers(tmp_path: Path) -> None:
    pack(csv_of(tmp_path / "in", species=_ANIMALS), tmp_path / "train", label="species")
    table = csv_of(tmp_path / "other", species=["owl", "dog"])
    (tmp_path / "names.txt").write_text("cat\ndog\n\nowl\n")
    names: Any
    for number, names in enumerate((tmp_path / "train", tmp_path / "names.txt", ["cat", "dog", "owl"])):
        pack(table, tmp_path / f"val{number}", label="species", class_names=names)
        assert labels_of(tmp_path / f"val{number}") == ([2, 1], ("cat", "dog", "owl"))
    wolf = csv_of(tmp_path / "wolf", species=["owl", "wolf"])
    info = report(tmp_path / "val2")
    assert "label species" in info and "class_names" not in info
    with pytest.raises(
        DataError, match=r"1 \(number 1 of the source, from 0\): .*'wolf', and the 3 classes are cat, dog, owl\n"
    ):
        pack(wolf, tmp_path / "no", label="species", class_names=tmp_path / "train")
    assert not (tmp_path / "no").exists()


def test_columns_of_numbers_become_one_vector(tmp_path: Path) -> None:
    table = csv_of(tmp_path / "in", cat=[0, 1], dog=[1, 0], weight=[0.5, 2])
    pack(table, tmp_path / "out", label="cat,dog,weight")
    with Records(tmp_path / "out") as records:
        vectors = records.column("label")
        assert vectors.dtype == np.float32 and vectors.tolist() == [[0, 1, 0.5], [1, 0, 2]]
        assert records.class_names == ("cat", "dog", "weight")


def test_tags_become_one_vector(tmp_path: Path) -> None:
    expected = [[1, 0, 1], [0, 0, 0], [0, 1, 0]], ("clear", "haze", "water")
    cells = pyarrow.array([["water", "clear"], [], ["haze"]])
    sources: dict[str, tuple[Path, Any]] = {
        "list": (parquet_of(tmp_path / "a.parquet", tags=cells), {"label": "tags"}),
        "cells": (csv_of(tmp_path / "in", tags=["water|clear", "", "haze"]), {"label": "tags", "label_separator": "|"}),
        "columns": (csv_of(tmp_path / "two", one=["water", "", "haze"], two=["clear", "", ""]), {"label": ["one", "two"]}),
    }  # fmt: skip
    for name, (source, settings) in sources.items():
        pack(source, tmp_path / "out" / name, **settings)
        assert labels_of(tmp_path / "out" / name) == expected, name
    with Records(tmp_path / "out" / "list") as records:
        assert [column.name for column in records.columns] == ["label"]
    with pytest.raises(DataError, match="cannot be packed: tags"):
        pack(tmp_path / "a.parquet", tmp_path / "no")


def classes_of(path: Path, names: dict[str, list[str]], **columns: Any) -> Path:
    """A table of Hugging Face with the names of classes."""
    parquet_of(path, **columns)
    features = {name: {"_type": "ClassLabel", "names": of} for name, of in names.items()}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).replace_schema_metadata(metadata), path)
    return path


def test_numbers_keep_the_names_that_a_data_set_gives_them(tmp_path: Path) -> None:
    names = {"breed": ["pug", "corgi"], "sex": ["f", "m"]}
    pack(classes_of(tmp_path / "t.parquet", names, breed=[1, 0], sex=[0, 1]), tmp_path / "out", label="breed")
    assert labels_of(tmp_path / "out") == ([1, 0], ("pug", "corgi"))


def test_a_label_beside_a_column_of_classes_leaves_it_its_name(tmp_path: Path) -> None:
    source = classes_of(tmp_path / "t.parquet", {"sex": ["f", "m"]}, sex=[0, 1], species=["owl", "cat"])
    pack(source, tmp_path / "out", label="species")
    assert labels_of(tmp_path / "out") == ([1, 0], ("cat", "owl"))
    with Records(tmp_path / "out") as records:
        assert records.column("sex").tolist() == [0, 1]


@pytest.mark.parametrize(
    ("numbers", "what"),
    [
        ([0, -1], "there are 2 class names, and column 'label' holds numbers from -1 to 0"),
        ([0, 2], "there are 2 class names, and column 'label' holds numbers from 0 to 2"),
        ([0.0, 1.0], "there are 2 class names, and column 'label' holds other values"),
    ],
)
def test_a_number_without_a_name_gets_no_other_number(tmp_path: Path, numbers: list[Any], what: str) -> None:
    """Hugging Face's test splits have the class -1 for images without a label."""
    pack(classes_of(tmp_path / "t.parquet", {"label": ["cat", "dog"]}, label=numbers), tmp_path / "out")
    with pytest.raises(DataError, match=what):
        Loader(tmp_path / "out", 2, size=8, augment=False, class_names=["dog", "owl", "cat"])


def test_small_integers_are_renumbered_by_long_and_short_lists(tmp_path: Path) -> None:
    small = pyarrow.array([0, 1], pyarrow.uint8())
    pack(classes_of(tmp_path / "t.parquet", {"label": ["cat", "dog", "yak"]}, label=small), tmp_path / "out")
    many = [f"class {number}" for number in range(300)]
    for names, expected in ((["dog", "cat"], [1, 0]), ([*many, "yak", "cat", "dog"], [301, 302])):
        with Loader(tmp_path / "out", 2, size=8, augment=False, class_names=names) as loader:
            assert loader[0][1].tolist() == expected


def test_names_with_blanks_are_those_of_the_data_set(tmp_path: Path) -> None:
    pack(classes_of(tmp_path / "t.parquet", {"label": ["cat ", "dog"]}, label=[0, 1]), tmp_path / "out")
    with Loader(tmp_path / "out", 2, size=8, augment=False, class_names=tmp_path / "out") as loader:
        assert loader[0][1].tolist() == [0, 1] and loader.class_names == ("cat ", "dog")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_class_that_is_no_number_is_refused(tmp_path: Path, value: float) -> None:
    source = parquet_of(tmp_path / "t.parquet", x=[0.0, value])
    with pytest.raises(DataError, match=f"column 'x' has {value}, and the 2 classes are counted from 0"):
        pack(source, tmp_path / "out", label="x", class_names=["cat", "dog"])


def test_a_copy_of_a_loader_needs_no_file_of_names(tmp_path: Path) -> None:
    pack(csv_of(tmp_path / "in", species=_ANIMALS), tmp_path / "out", label="species")
    names = tmp_path / "names.txt"
    names.write_text("cat\ndog\nowl\n")
    with Loader(tmp_path / "out", 2, size=8, augment=False, class_names=names) as loader:
        names.unlink()
        kind, settings = loader.__reduce__()
        assert kind(*settings).class_names == ("cat", "dog", "owl")


@pytest.mark.parametrize(
    ("columns", "label", "why"),
    [
        ({"x": ["cat", ""]}, "x", r"1 \(number 1 of the source, from 0\): column 'x' is empty\nhint: fill it in"),
        ({"x": ["", ""]}, "x", "every label is empty: x"),
        ({"x": ["cat", "dog"]}, "y", "there is no column 'y'\nhint: there are: x"),
        ({"x": ["cat", "3"]}, "x", "column 'x' mixes numbers and words: '3' and 'cat'\nhint: .*--class-names"),
        ({"x": ["cat", "dog"], "n": [1, 2]}, "x,n", r"a label cannot be made of x \(text\), n \(int64\)"),
        ({"x": ["cat", "dog"], "label": [1, 2]}, "x", "the source has a column 'label' besides x"),
        ({"x": ["cat", "dog"]}, "x,x", "this is not a label: 'x,x'"),
        ({"x": [f"{i} kg" for i in range(120)]}, "x", "column 'x' has 120 different words for 120 images: '0 kg'"),
        ({"a": [1, 2**25], "b": [1, 2]}, "a,b", "float32, which cannot hold 33554432 exactly"),
        ({"a": [0.5, 1e300], "b": [1, 2]}, "a,b", r"float32, which cannot hold 1e\+300 exactly"),
    ],
)
def test_a_column_that_is_no_label_is_refused_by_name(
    tmp_path: Path, columns: dict[str, Any], label: str, why: str
) -> None:
    table = csv_of(tmp_path / "in", **columns)
    with pytest.raises(DataError, match=why):
        pack(table, tmp_path / "out", label=label)
    assert not (tmp_path / "out").exists()


def test_settings_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    table = csv_of(tmp_path / "in", x=["cat", "dog"], n=[1, 2])
    for settings, why in [
        ({"label_separator": "|"}, "label_separator means nothing without label"),
        ({"class_names": ["a"]}, "class_names means nothing without label"),
        ({"label": "n", "label_separator": "|"}, "'n' holds numbers, which have no tags"),
        ({"label": "x", "class_names": ["cat", "cat"]}, "not names of classes: 'cat' is there twice"),
        ({"label": "x", "class_names": []}, "not names of classes: there is none"),
        ({"label": "x", "class_names": tmp_path / "no"}, "cannot read class names from"),
        ({"label": "x", "columns": "label=n"}, "columns makes 'label' of n, and label makes it of x"),
        ({"label": "n", "class_names": ["cat", "dog"]}, "column 'n' has 2, and the 2 classes are counted from 0"),
    ]:
        with pytest.raises(DataError, match=why):
            pack(table, tmp_path / "out", **settings)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the columns of an iterable are not known"):
        pack([Item("a", photo(8, 8), {"x": "cat"})], tmp_path / "out", label="x")
    with pytest.raises(DataError, match="there is no column 'species'\nhint: there are: label"):
        pack(class_folder(tmp_path / "folder"), tmp_path / "out", label="species")


def test_missing_labels_can_be_skipped(tmp_path: Path) -> None:
    words = pyarrow.array(["cat", None, "dog"])
    arrays = {"image": np.zeros((3, 8, 8, 3), np.uint8), "x": np.array(["cat", " ", "dog"])}
    source: Any
    for number, (source, why) in enumerate(
        [
            (csv_of(tmp_path / "in", x=["cat", "", "dog"]), "column 'x' is empty"),
            (parquet_of(tmp_path / "t.parquet", x=words), "column 'x' is null"),
            (arrays, "column 'x' is empty"),
        ]
    ):
        with pytest.raises(DataError, match=rf"number 1 of the source, from 0\): {why}"):
            pack(source, tmp_path / "no", label="x")
        summary = pack(source, tmp_path / f"out{number}", label="x", on_error="skip")
        assert [note.text for note in summary.skipped] == [why]
        assert labels_of(summary.folder) == ([0, 1], ("cat", "dog"))


def test_classes_that_differ_in_case_are_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack(csv_of(tmp_path / "in", x=["cat", "Cat ", "dog"]), tmp_path / "out", label="x")
    assert labels_of(tmp_path / "out")[1] == ("Cat", "cat", "dog")
    assert capsys.readouterr().err == "abreast: column 'x' has classes that differ only in case: 'Cat', 'cat'\n"


def test_a_loader_numbers_words_and_says_how(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack(csv_of(tmp_path / "in", species=_ANIMALS), tmp_path / "out")
    with Loader(tmp_path / "out", 6, size=8, targets="species", augment=False) as loader:
        _, labels = next(iter(loader))
        assert labels.dtype == np.int64 and labels.tolist() == [2, 0, 1, 0, 2, 0]
        assert loader.class_names == ("cat", "dog", "owl")
        said = f"abreast: targets='species' of {tmp_path / 'out'}: 3 classes, numbered from 0: cat, dog, owl\n"
        assert capsys.readouterr().err == said
        kind, settings = loader.__reduce__()
        assert kind(*settings).class_names == loader.class_names and capsys.readouterr().err == ""
    with Loader(tmp_path / "out", 6, size=8, targets="species") as again:
        assert again.class_names == ("cat", "dog", "owl") and capsys.readouterr().err == ""


def test_words_with_other_numbers_are_announced_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "_NUMBERED", {})
    for name, words in (("train", ["owl", "cat", "dog"]), ("same", ["owl", "dog", "cat"]), ("few", ["owl", "dog"])):
        pack(csv_of(tmp_path / name, breed=words), tmp_path / f"{name}.pack")
    train = Loader(tmp_path / "train.pack", 2, size=8, targets="breed")
    Loader(tmp_path / "same.pack", 2, size=8, targets="breed")
    Loader(tmp_path / "few.pack", 2, size=8, targets="breed", class_names=train.class_names)
    assert "hint" not in capsys.readouterr().err
    Loader(tmp_path / "few.pack", 2, size=8, targets="breed")
    said = capsys.readouterr().err
    assert f"targets='breed' of {tmp_path}/few.pack and of {tmp_path}/train.pack have different numbers" in said
    assert "hint: of one training, give the later data sets class_names=" in said


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        (
            {},
            "no column 'label'",
            "columns of numbers of one shape: weight; columns of words: animal (targets='animal' n",
        ),
        ({"targets": "animl"}, "no column 'animl'", "did you mean 'animal'? columns of numbers"),
        ({"targets": "Wieght"}, "no column 'Wieght'", "did you mean 'weight'? columns of numbers"),
        ({"targets": ["animal", "wight"]}, "no column 'wight'", "did you mean 'weight'? columns of numbers"),
        ({"targets": None, "weights": "wieght"}, "no column 'wieght'", "did you mean 'weight'? columns of numbers"),
    ],
)
def test_a_missing_column_names_those_that_would_do(
    tmp_path: Path, settings: dict[str, Any], message: str, hint: str
) -> None:
    source = {"image": np.zeros((6, 8, 8, 3), np.uint8), "animal": _ANIMALS, "weight": np.arange(6)}
    pack(source, tmp_path / "t.pack")
    with pytest.raises(DataError) as caught:
        Loader(tmp_path / "t.pack", 4, size=8, **settings)
    assert message in caught.value.message and str(caught.value.hint).startswith(hint)


@pytest.mark.in_turn
def test_words_train_as_their_numbers_do(tmp_path: Path, workers: Workers) -> None:
    """Words of a CSV, numbered by the loader, on two devices; the packer's numbers, on one."""
    words = [_ANIMALS[i % 6] for i in range(13)]
    pack(csv_of(tmp_path / "in", species=words), tmp_path / "words")
    pack(csv_of(tmp_path / "in", species=words), tmp_path / "numbers", label="species")
    body: Any = SimpleNamespace(__module__="tests.records.fit_bodies", __name__="trained_on_classes")
    found, expected = (
        workers.abreast.run(body, folder=str(tmp_path / name), devices=devices, targets=targets)
        for name, devices, targets in (("words", 2, "species"), ("numbers", 0, "label"))
    )
    assert found["class_names"] == expected["class_names"] == ("cat", "dog", "owl")
    for one, other in zip(found["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(found["history"]["loss"], expected["history"]["loss"], rtol=1e-5)


@pytest.mark.in_turn
def test_a_validation_with_other_numbers_is_refused(tmp_path: Path, workers: Workers) -> None:
    pack(csv_of(tmp_path / "in", species=["owl", "cat", "dog"] * 2), tmp_path / "train")
    pack(csv_of(tmp_path / "in", species=["owl", "dog"]), tmp_path / "val")
    body: Any = SimpleNamespace(__module__="tests.records.fit_bodies", __name__="fitted_with_validation")
    folders: Any = {"folder": str(tmp_path / "train"), "held_out": str(tmp_path / "val")}
    with pytest.raises(RemoteError) as caught:
        workers.abreast.run(body, **folders)
    assert "class 0 is 'cat' in the training data, and 'dog' in the validation data\nhint: " in caught.value.message
    assert workers.abreast.run(body, **folders, class_names=["cat", "dog", "owl"]) == 1


def test_a_loader_takes_the_names_of_another(tmp_path: Path) -> None:
    pack(csv_of(tmp_path / "in", species=["owl", "dog"], n=[0, 4]), tmp_path / "words")
    pack(tmp_path / "words", tmp_path / "numbers", label="species")
    pack(csv_of(tmp_path / "tags", t=["owl|dog", "dog"]), tmp_path / "vectors", label="t", label_separator="|")
    names = ["cat", "dog", "owl"]

    def targets(name: str, column: str = "label", names: Any = names) -> Any:
        with Loader(tmp_path / name, 2, size=8, targets=column, augment=False, class_names=names) as loader:
            assert loader.class_names == tuple(names)
            return next(iter(loader))[1].tolist()

    assert targets("words", "species") == targets("numbers") == [2, 1]
    assert targets("vectors") == [[0, 1, 1], [0, 1, 0]]
    for name, column in (("words", "species"), ("numbers", "label"), ("vectors", "label")):
        with pytest.raises(DataError, match="has the word 'owl', and the 2 classes are cat, dog"):
            targets(name, column, ["cat", "dog"])
    assert targets("words", "n", ["a", "b", "c", "d", "e"]) == [0, 4]
    with pytest.raises(DataError, match="there are 3 class names, and column 'n' holds numbers from 0 to 4"):
        targets("words", "n")
    with pytest.raises(DataError, match="is not one column"):
        Loader(tmp_path / "words", 2, size=8, targets=["species", "n"], class_names=names)


def test_a_loader_of_a_part_needs_the_names_of_all(tmp_path: Path) -> None:
    pack(csv_of(tmp_path / "in", x=["cat", "dog"] * 6), tmp_path / "out", split="a=0.5,b=0.5")
    with pytest.raises(DataError, match=r"is a part, which may lack some words of column 'x'\nhint: .*--label x"):
        Loader(tmp_path / "out" / "a", 2, size=8, targets="x")


def test_a_loader_refuses_words_that_are_no_labels(tmp_path: Path) -> None:
    pack(csv_of(tmp_path / "in", x=["cat", ""], y=["cat", "3"]), tmp_path / "out")
    with pytest.raises(DataError, match=r"column 'x' of sample 1 \(1\) is empty"):
        Loader(tmp_path / "out", 2, size=8, targets="x")
    with pytest.raises(DataError, match="column 'y' mixes numbers and words"):
        Loader(tmp_path / "out", 2, size=8, targets="y")
