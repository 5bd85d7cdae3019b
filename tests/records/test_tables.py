"""Parquet files and Hugging Face data sets are packed row by row, without being loaded whole."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from abreast.errors import DataError
from abreast.installing import install_command
from abreast.records import Records, pack
from abreast.records.sources import scan
from abreast.records.sources.choose import source_of
from tests.harness.client import ROOT
from tests.records.pieces import class_folder
from tests.records.shards import png


def table(count: int = 5, **columns: Any) -> Any:
    """Images as `datasets` stores them, with the names of two classes."""
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["cat", "dog"]}}
    data = {
        "image": [{"bytes": png(i), "path": f"{i}.png"} for i in range(count)],
        "label": [i % 2 for i in range(count)],
        **columns,
    }
    made = pyarrow.table(data)
    return made.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def write(path: Path, content: Any, **settings: Any) -> Path:
    pyarrow.parquet.write_table(content, path, **settings)
    return path


def columns_of(path: Any, **settings: Any) -> list[dict[str, Any]]:
    found = []
    for item in source_of(path, **settings).items(0):
        assert not isinstance(item.image, DataError), item.image
        values = {
            name: str(v) if isinstance(v, DataError) else np.asarray(v).tolist() for name, v in item.columns.items()
        }
        found.append(values)
    return found


def test_images_in_a_table_keep_their_bytes_and_classes(tmp_path: Path) -> None:
    write(tmp_path / "train-00000-of-00001.parquet", table(), row_group_size=2)
    pack(tmp_path / "train-00000-of-00001.parquet", tmp_path / "out", storage="keep")
    with Records(tmp_path / "out") as records:
        assert [bytes(sample.data) for sample in records] == [png(i) for i in range(5)]
        assert records.column("label").tolist() == [0, 1, 0, 1, 0]
        assert records.class_names == ("cat", "dog")
        assert records[4].key == "train-00000-of-00001/00000004"


def test_a_folder_of_tables_is_one_source(tmp_path: Path) -> None:
    for i in range(2):
        write(tmp_path / f"{i}.parquet", table(count=3 + i))
    source = source_of(tmp_path)
    assert source.num_items == 7 == len(list(source.items(0)))
    assert [item.key for item in source.items(4)] == ["1/00000001", "1/00000002", "1/00000003"]
    write(tmp_path / "2.parquet", table(x=[1] * 5))
    with pytest.raises(DataError, match=r"2\.parquet has other columns than .*0\.parquet"):
        source_of(tmp_path)


@pytest.mark.parametrize("begin", [0, 1, 63, 64, 65, 149, 150])
def test_a_source_goes_on_from_any_row(tmp_path: Path, begin: int) -> None:
    write(tmp_path / "a.parquet", table(count=150), row_group_size=70)
    items = list(source_of(tmp_path / "a.parquet").items(begin))
    assert [item.image for item in items] == [png(i) for i in range(begin, 150)]
    assert [item.key for item in items] == [f"a/{i:08d}" for i in range(begin, 150)]


def test_a_table_of_paths_is_as_a_csv(tmp_path: Path) -> None:
    class_folder(tmp_path)
    paths = ["cat/0.jpg", "cat/1.jpg", "dog/0.jpg"]
    write(tmp_path / "t.parquet", pyarrow.table({"path": paths, "label": [1, 2, 3], "text": ["a", "b", "c"]}))
    found = list(source_of(tmp_path / "t.parquet").items(0))
    assert [(item.key, item.image) for item in found] == [(path[:-4], tmp_path / path) for path in paths]
    pack(tmp_path / "t.parquet", tmp_path / "out")
    with Records(tmp_path / "out") as records:
        assert dict(records[2].columns) == {"label": 3, "text": "c"}
    image = tmp_path / "cat" / "1.jpg"
    os.utime(image, ns=(0, image.stat().st_mtime_ns + 1))
    with pytest.raises(DataError, match="begun with another source"):
        pack(tmp_path / "t.parquet", tmp_path / "out")


def test_columns_keep_their_types(tmp_path: Path) -> None:
    fixed = pyarrow.list_(pyarrow.float32(), 2)
    columns = {
        "b": pyarrow.array([True]),
        "i": pyarrow.array([-1], pyarrow.int16()),
        "u": pyarrow.array([2**64 - 1], pyarrow.uint64()),
        "h": pyarrow.array([np.float16(0.5)], pyarrow.float16()),
        "f": pyarrow.array([0.1], pyarrow.float32()),
        "d": pyarrow.array([0.1]),
        "t": pyarrow.array(["ä"], pyarrow.large_string()),
        "c": pyarrow.array(["ä"]).dictionary_encode(),
        "y": pyarrow.array([b"\0\1"]),
        "vector": pyarrow.array([[1, 2]], fixed),
        "list": pyarrow.array([[1, 2, 3]]),
        "boxes": pyarrow.array([[[1, 2], [3, 4], [5, 6]]], pyarrow.list_(fixed)),
    }
    write(tmp_path / "a.parquet", table(1, **columns))
    pack(tmp_path / "a.parquet", tmp_path / "out", image="image")
    with Records(tmp_path / "out") as records:
        types = {column.name: (column.type, column.shape) for column in records.columns}
        assert types == {
            "label": ("<i8", ()),
            "b": ("|b1", ()),
            "i": ("<i2", ()),
            "u": ("<u8", ()),
            "h": ("<f2", ()),
            "f": ("<f4", ()),
            "d": ("<f8", ()),
            "t": ("text", (None,)),
            "c": ("text", (None,)),
            "y": ("bytes", (None,)),
            "vector": ("<f4", (2,)),
            "list": ("<i8", (None,)),
            "boxes": ("<f4", (None, 2)),
        }
        values = {name: np.asarray(value).tolist() for name, value in records[0].columns.items() if name != "y"}
        assert values["u"] == 2**64 - 1 and values["t"] == "ä" and values["boxes"] == [[1, 2], [3, 4], [5, 6]]
        assert records[0].columns["y"] == b"\0\1" and values["f"] == float(np.float32(0.1)) and values["d"] == 0.1


def test_a_column_of_another_type_must_be_left_out(tmp_path: Path) -> None:
    when = pyarrow.array([0] * 5, pyarrow.timestamp("s"))
    write(tmp_path / "a.parquet", table(when=when, x=[1] * 5))
    with pytest.raises(DataError, match=r"when \(timestamp\[ms\]\)\nhint: name the columns to keep: --columns label,x"):
        pack(tmp_path / "a.parquet", tmp_path / "out")
    pack(tmp_path / "a.parquet", tmp_path / "out", columns="label,x")
    with pytest.raises(DataError, match="cannot be packed: when"):
        pack(tmp_path / "a.parquet", tmp_path / "other", columns="when")


@pytest.mark.parametrize(
    ("column", "why"),
    [([1, None], "column 'x' is null"), ([[1], [None]], "'x' does not hold an array: a value in it is null")],
)
def test_a_missing_value_is_refused_by_name(tmp_path: Path, column: list[Any], why: str) -> None:
    write(tmp_path / "a.parquet", table(2, x=column))
    with pytest.raises(DataError, match=f"number 1 of the source.*{why}"):
        pack(tmp_path / "a.parquet", tmp_path / "out")


def not_utf8() -> Any:
    """Two texts, the second of which is invalid: pyarrow believes the type that a file states."""
    offsets = pyarrow.array(["a", "bc"]).buffers()[1]
    return pyarrow.Array.from_buffers(pyarrow.string(), 2, [None, offsets, pyarrow.py_buffer(b"a\xff\xfe")])


@pytest.mark.parametrize(
    ("name", "why"), [("x", "column 'x' is not valid UTF-8"), ("path", "the path is not valid UTF-8")]
)
def test_invalid_text_is_refused_by_name(tmp_path: Path, name: str, why: str) -> None:
    columns = {name: not_utf8()} | ({} if name == "path" else {"image": [png(), png(1)]})
    write(tmp_path / "a.parquet", pyarrow.table(columns))
    (tmp_path / "a").write_bytes(png())
    summary = pack(tmp_path / "a.parquet", tmp_path / "out", on_error="skip")
    assert summary.num_samples == 1
    assert [note.text.partition(":")[0] for note in summary.skipped] == [why]


def test_a_missing_image_is_refused_by_name(tmp_path: Path) -> None:
    images = [{"bytes": png(), "path": None}, {"bytes": None, "path": None}, None]
    write(tmp_path / "a.parquet", pyarrow.table({"image": images}))
    summary = pack(tmp_path / "a.parquet", tmp_path / "out", on_error="skip")
    assert [note.text for note in summary.skipped] == ["the row has no image", "the row has no image"]


def test_the_column_of_the_images_is_found_or_must_be_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", pyarrow.table({"mask": [b"m"], "jpg": [png()], "n": [1]}))
    assert columns_of(tmp_path / "a.parquet") == [{"mask": b"m", "n": 1}]
    assert columns_of(tmp_path / "a.parquet", image="mask") == [{"jpg": png(), "n": 1}]
    with pytest.raises(DataError, match="no column 'n' of bytes, paths, or both\nhint: there are: mask, jpg"):
        source_of(tmp_path / "a.parquet", image="n")
    write(tmp_path / "b.parquet", pyarrow.table({"left": [png()], "right": [png()]}))
    with pytest.raises(DataError, match=r"may be the image: left, right\nhint: .*--image left"):
        source_of(tmp_path / "b.parquet")
    write(tmp_path / "c.parquet", pyarrow.table({"x": [1]}))
    with pytest.raises(DataError, match="none of these columns holds images: x"):
        source_of(tmp_path / "c.parquet")


def named(features: dict[str, list[str]]) -> Any:
    made = table(2, **{name: [0, 1] for name in features}).drop_columns(["label"])
    described = {name: {"_type": "ClassLabel", "names": names} for name, names in features.items()}
    return made.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": described}})})


def test_the_only_column_of_classes_is_the_label(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", named({"breed": ["a", "b"]}))
    source = source_of(tmp_path / "a.parquet")
    assert source.class_names == ("a", "b") and columns_of(tmp_path / "a.parquet")[1] == {"label": 1}


def test_one_of_several_class_columns_must_be_chosen(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", named({"fine": ["a", "b"], "coarse": ["c", "d"]}))
    with pytest.raises(
        DataError, match=r"several columns have class names: fine, coarse\nhint: .*--columns label=fine"
    ):
        pack(tmp_path / "a.parquet", tmp_path / "out")
    pack(tmp_path / "a.parquet", tmp_path / "out", columns={"label": "coarse", "fine": "fine"})
    with Records(tmp_path / "out") as records:
        assert records.class_names == ("c", "d") and list(records[1].columns) == ["label", "fine"]


def test_a_table_is_not_shuffled(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", table())
    with pytest.raises(DataError, match=r"parquet is read in its own order.*\nhint: leave shuffle_seed"):
        pack(tmp_path / "a.parquet", tmp_path / "out", shuffle_seed=1)


def test_an_invalid_file_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.parquet", table()).read_bytes()
    for data in (b"", b"PAR1", whole[:-1], whole[: len(whole) // 2], bytes(100)):
        (tmp_path / "b.parquet").write_bytes(data)
        with pytest.raises(DataError, match=r"cannot read .*b\.parquet"):
            source_of(tmp_path / "b.parquet")


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.parquet", table())
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DataError, match=re.escape(f"\nhint: {install_command('parquet')}")):
        source_of(tmp_path / "a.parquet")


def test_a_large_table_takes_little_memory(tmp_path: Path) -> None:
    """120 MB in one row group: the reader's allocations stay far below that."""
    noise = np.random.default_rng(0).integers(0, 256, 2_000_000, np.uint8).tobytes()
    content = pyarrow.table({"image": [noise] * 60})
    write(tmp_path / "a.parquet", content, use_dictionary=False, compression="none")
    del content
    script = (
        "import pyarrow, resource, sys\nfrom abreast.records.sources.choose import source_of\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(sum(len(item.image) for item in source_of(sys.argv[1]).items(0)))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a.parquet")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=True)
    total, grown = map(int, done.stdout.split())
    assert total == 120_000_000 and grown < 60_000, grown  # kilobytes


class Features(dict[str, Any]):
    def __init__(self, schema: Any) -> None:
        self.arrow_schema = schema


class Dataset:
    """A replacement for `datasets.Dataset`: the parts of it that we use, over a table."""

    __module__ = "datasets.arrow_dataset"

    def __init__(self, content: Any, fingerprint: str = "f00") -> None:
        self.content = content
        self.features = Features(content.schema)
        self._fingerprint = fingerprint
        self.given: list[list[str]] = []  # the columns of each table

    def with_format(self, kind: str) -> Dataset:
        assert kind == "arrow"
        return self

    def __len__(self) -> int:
        return int(self.content.num_rows)

    def select_columns(self, names: list[str]) -> Dataset:
        chosen = Dataset(self.content.select(names), self._fingerprint)
        chosen.given = self.given
        return chosen

    def __getitem__(self, rows: slice) -> Any:
        self.given.append(self.content.column_names)
        return self.content.slice(rows.start, rows.stop - rows.start)


def test_a_data_set_of_hugging_face_is_packed(tmp_path: Path) -> None:
    data = Dataset(table(count=150, text=[f"t{i}" for i in range(150)]))
    pack(data, tmp_path / "out", storage="keep")
    with Records(tmp_path / "out") as records:
        assert [bytes(sample.data) for sample in records] == [png(i) for i in range(150)]
        assert records.class_names == ("cat", "dog") and records[149].columns["text"] == "t149"
    assert pack(data, tmp_path / "out", storage="keep").num_now == 0
    with pytest.raises(DataError, match="begun with another source"):
        pack(Dataset(table(count=150), "bar"), tmp_path / "out", storage="keep")


def test_a_data_set_may_be_shuffled(tmp_path: Path) -> None:
    pack(Dataset(table(count=20)), tmp_path / "out", storage="keep", shuffle_seed=1)
    with Records(tmp_path / "out") as records:
        keys = [sample.key for sample in records]
        assert keys != sorted(keys) and all(bytes(sample.data) == png(int(sample.key)) for sample in records)


def test_words_of_a_data_set_are_numbered_without_its_images(tmp_path: Path) -> None:
    data = Dataset(table(count=70, text=["owl", "cat"] * 35))
    found = scan.columns_of(source_of(data, label=["text"]), ["text"])
    assert list(found) == [(f"{i:08d}", {"text": ["owl", "cat"][i % 2]}) for i in range(70)]
    assert data.given == [["text"], ["text"]]


def test_splits_and_streams_are_refused_with_a_hint() -> None:
    splits = type("DatasetDict", (dict,), {"__module__": "datasets.dataset_dict"})(train=1, test=2)
    with pytest.raises(DataError, match=r"has the splits train, test\nhint: .*split='train,test'"):
        source_of(splits)
    with pytest.raises(DataError, match="hint: load the data set without streaming"):
        source_of(type("IterableDataset", (), {"__module__": "datasets.iterable_dataset"})())


# In a process of its own: `datasets` looks for frameworks when it is imported.
_REAL = """
import io, sys
import datasets
from PIL import Image
from abreast.records import Records, pack
from tests.records.shards import png

classes = datasets.ClassLabel(names=["cat", "dog"])
features = datasets.Features({
    "picture": datasets.Image(), "label": classes, "boxes": datasets.Array2D((2, 2), "float32"),
    "scores": datasets.Sequence(datasets.Value("int16")), "text": datasets.Value("string"),
})
rows = {
    "picture": [{"bytes": png(i), "path": None} for i in range(9)], "label": [i % 2 for i in range(9)],
    "boxes": [[[i, 1], [2, 3]] for i in range(9)], "scores": [[i] * i for i in range(9)], "text": list("abcdefghi"),
}
whole = datasets.Dataset.from_dict(rows, features=features)
chosen = whole.select([8, 3, 5])
pack(chosen, sys.argv[1] + "/out", storage="keep")
with Records(sys.argv[1] + "/out") as records:
    assert [bytes(sample.data) for sample in records] == [png(8), png(3), png(5)]
    assert records.class_names == ("cat", "dog") and records.column("label").tolist() == [0, 1, 1]
    assert records.column("boxes").tolist() == [[[i, 1], [2, 3]] for i in (8, 3, 5)]
    assert [sample.columns["scores"].tolist() for sample in records] == [[i] * i for i in (8, 3, 5)]
    assert [sample.columns["text"] for sample in records] == ["i", "d", "f"]
assert pack(whole.select([8, 3, 5]), sys.argv[1] + "/out", storage="keep").num_now == 0
pack(whole.remove_columns("label").shuffle(seed=0), sys.argv[1] + "/words", label="text")
with Records(sys.argv[1] + "/words") as records:
    assert ["abcdefghi"[sample.columns["label"]] for sample in records] == records.texts("text")
splits = whole.train_test_split(3, seed=0)
summary = pack(splits, sys.argv[1] + "/parts", split="train,test")
assert {name: part.num_samples for name, part in summary.parts.items()} == {"train": 6, "test": 3}
whole.to_parquet(sys.argv[1] + "/a.parquet")
pack(sys.argv[1] + "/a.parquet", sys.argv[1] + "/again", storage="keep")
with Records(sys.argv[1] + "/again") as records:
    assert [bytes(sample.data) for sample in records] == [png(i) for i in range(9)]
    assert records.class_names == ("cat", "dog") and records[3].columns["boxes"].tolist() == [[3, 1], [2, 3]]
print("packed")
"""


@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="datasets is not installed")
def test_tables_that_datasets_writes_are_packed(tmp_path: Path) -> None:
    search = os.pathsep.join([str(ROOT / "src"), str(ROOT), *sys.path])
    environment = {**os.environ, "PYTHONPATH": search, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", _REAL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment)
    assert done.stdout == "packed\n", done.stderr


def test_image_files_that_rows_name_are_read(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(png())
    pair = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    images = [{"bytes": None, "path": "0.png"}, {"bytes": None, "path": "gone.png"}]
    write(tmp_path / "a.parquet", pyarrow.table({"image": pyarrow.array(images, pair)}))
    summary = pack(tmp_path / "a.parquet", tmp_path / "out", on_error="skip")
    assert summary.num_samples == 1 and summary.skipped[0].text == "there is no such file"
    (tmp_path / "0.png").write_bytes(png(1))
    with pytest.raises(DataError, match="begun with another source"):
        pack(tmp_path / "a.parquet", tmp_path / "out", on_error="skip")
