"""Each kind of source yields its images in order, with keys and columns."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.errors import DataError
from abreast.records import Item, Records, pack
from abreast.records.sources.choose import shuffled, source_of
from abreast.records.sources.source import ItemSource
from tests.records.pieces import class_folder, file_of, photo


def listed(source: ItemSource) -> list[tuple[str, Any]]:
    return [
        (item.key, {name: np.asarray(value).tolist() for name, value in item.columns.items()})
        for item in source.items(0)
    ]


def test_a_folder_of_folders_is_a_class_per_folder(tmp_path: Path) -> None:
    class_folder(tmp_path / "in", per_class=2)
    (tmp_path / "in" / "dog" / "deep").mkdir()
    (tmp_path / "in" / "dog" / "deep" / "x.y.PNG").write_bytes(file_of(photo(4, 4), "PNG"))
    (tmp_path / "in" / "dog" / ".hidden.png").write_bytes(b"")
    (tmp_path / "in" / "readme.txt").write_text("no image")
    source = source_of(tmp_path / "in")
    assert source.class_names == ["cat", "dog"]
    assert listed(source) == [
        ("cat/0", {"label": 0}),
        ("cat/1", {"label": 0}),
        ("dog/0", {"label": 1}),
        ("dog/1", {"label": 1}),
        ("dog/deep/x_y", {"label": 1}),
    ]


def test_a_folder_of_images_has_no_labels(tmp_path: Path) -> None:
    for name in ("b.jpg", "a.jpg", "a.png"):
        (tmp_path / name).write_bytes(b"")
    source = source_of(str(tmp_path))
    assert listed(source) == [("a", {}), ("a~1", {}), ("b", {})]
    assert source.class_names is None and source.columns == ()


def test_images_beside_classes_are_refused(tmp_path: Path) -> None:
    class_folder(tmp_path)
    (tmp_path / "loose.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"loose\.jpg"):
        source_of(tmp_path)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("0\t3\tcat/0.jpg\n1\t4.0\tcat/1.jpg\n", [{"label": 3}, {"label": 4}]),
        ("0\t0.5\tcat/0.jpg\n1\t4\tcat/1.jpg\n", [{"label": 0.5}, {"label": 4.0}]),
        ("0\t1\t2\tcat/0.jpg\n1\t3\t4\tcat/1.jpg\n", [{"label": [1, 2]}, {"label": [3, 4]}]),
        ("0 3 cat/0.jpg\n\n1 4 cat/1.jpg\n", [{"label": 3}, {"label": 4}]),
        ("0\tcat/0.jpg\n1\tcat/1.jpg\n", [{}, {}]),
    ],
)
def test_a_list_is_read_as_im2rec_writes_it(tmp_path: Path, text: str, columns: list[dict[str, Any]]) -> None:
    class_folder(tmp_path)
    (tmp_path / "train.lst").write_text(text)
    assert listed(source_of(tmp_path / "train.lst")) == [("cat/0", columns[0]), ("cat/1", columns[1])]


@pytest.mark.parametrize(
    "text",
    ["", "cat.jpg\n", "x\t1\tcat.jpg\n", "0\tx\tcat.jpg\n", "0\t1\ta.jpg\n1\t2\t3\tb.jpg\n", "0\t1e39\ta.jpg\n"],
)
def test_an_invalid_list_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.lst").write_text(text)
    with pytest.raises(DataError, match=r"train\.lst"):
        source_of(tmp_path / "train.lst")


def test_a_table_has_columns_of_numbers_and_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('label,path,score,name\n1,cat/0.jpg,0.5,"a, b"\n2,cat/1.jpg,1,c\n')
    source = source_of(tmp_path / "t.csv")
    assert listed(source)[0] == ("cat/0", {"label": 1, "score": 0.5, "name": "a, b"})
    assert source.columns is not None
    assert [(column.name, column.type) for column in source.columns] == [
        ("label", "<i8"),
        ("score", "<f8"),
        ("name", "text"),
    ]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "path\n", "path,x\na.jpg\n"])
def test_an_invalid_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError):
        source_of(tmp_path / "t.csv")


def test_columns_of_a_table_have_names_that_differ(tmp_path: Path) -> None:
    """Pandas writes a first column without a name; a data set with two columns of one name could not be read."""
    class_folder(tmp_path / "in", per_class=1)
    (tmp_path / "t.csv").write_text(",path,a b,a_b,x,x\n0,in/cat/0.jpg,1,2,3,4\n1,in/dog/0.jpg,5,6,7,8\n")
    pack(tmp_path / "t.csv", tmp_path / "out")
    with Records(tmp_path / "out") as records:
        assert records[1].columns == {"_": 1, "a_b": 5, "a_b_": 6, "x": 7, "x_": 8}


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "-2"], [1, -2]),
        (["1", "2.5", "1e3", ".5"], [1.0, 2.5, 1000.0, 0.5]),
        (["007", "008"], ["007", "008"]),
        (["1_0", "2"], ["1_0", "2"]),
        ([" 1", "2"], [" 1", "2"]),
        (["1", ""], ["1", ""]),
        (["0.5", "nan"], ["0.5", "nan"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["9007199254740993", "0.5"], ["9007199254740993", "0.5"]),
        (["\u0661", "2"], ["\u0661", "2"]),
    ],
)
def test_cells_are_numbers_when_nothing_is_lost(tmp_path: Path, cells: list[str], values: list[Any]) -> None:
    rows = "".join(f"{i}.jpg,{cell}\n" for i, cell in enumerate(cells))
    (tmp_path / "t.csv").write_text(f"path,x\n{rows}")
    found = [item.columns["x"] for item in source_of(tmp_path / "t.csv").items(0)]
    assert found == values and {type(value) for value in found} == {type(value) for value in values}


def test_text_in_a_table_stays_as_it_is(tmp_path: Path) -> None:
    text = "a\r\nb\nc\u2028d\x0be\x85f"
    (tmp_path / "t.csv").write_bytes(f'path,text\r\na.jpg,"{text}"\r\n'.encode())
    assert listed(source_of(tmp_path / "t.csv")) == [("a", {"text": text})]


def test_only_a_newline_ends_a_line_of_a_list(tmp_path: Path) -> None:
    (tmp_path / "t.lst").write_bytes("0\t1\ta\u2028b.jpg\r\n1\t2\tc\x85d.jpg\n".encode())
    names = [item.image.name for item in source_of(tmp_path / "t.lst").items(0) if isinstance(item.image, Path)]
    assert names == ["a\u2028b.jpg", "c\x85d.jpg"]


@pytest.mark.parametrize(
    ("name", "text"), [("t.csv", 'path,x\n"",1\n'), ("t.csv", "path,x\n/,1\n"), ("t.lst", "0\t1\t\n")]
)
def test_a_path_that_names_no_file_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=name):
        source_of(tmp_path / name)


@pytest.mark.parametrize("where", ["", "cat", "dog/deep"])
def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (class_folder(tmp_path) / "dog" / "deep").mkdir()
    scandir = os.scandir

    def refusing(folder: Any) -> Any:
        if Path(folder) == tmp_path / where:
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(DataError, match=r"cannot read the folder .*: Permission denied") as caught:
        source_of(tmp_path)
    assert "hint: make it readable" in str(caught.value)


@pytest.mark.parametrize("label", [np.zeros(0, str), 3])
def test_labels_without_one_row_per_image_are_refused(label: Any) -> None:
    with pytest.raises(DataError, match="column 'label'"):
        source_of((np.zeros((2, 8, 8), np.uint8), label))


def test_an_empty_array_with_labels_of_text_is_an_empty_source() -> None:
    source = source_of((np.zeros((0, 8, 8), np.uint8), np.zeros(0, str)))
    assert source.num_items == 0 and source.columns is not None and source.columns[0].type == "text"


def test_two_images_are_not_images_with_labels() -> None:
    with pytest.raises(DataError, match="look like two images"):
        source_of((photo(8, 9), photo(8, 9)))


def test_arrays_go_with_their_labels(tmp_path: Path) -> None:
    images, labels = np.stack([photo(8, 9, seed=i) for i in range(5)]), np.arange(5, dtype=np.uint8).reshape(5, 1)
    pack((images, labels), tmp_path / "out", storage="png")
    with Records(tmp_path / "out") as records:
        assert records.column("label").tolist() == labels.tolist()
        assert records.column("label").dtype == np.uint8


def test_a_dictionary_of_arrays_has_columns(tmp_path: Path) -> None:
    images = np.zeros((3, 8, 9), np.uint8)
    names = np.array(["a", "bc", "ä"])
    pack({"image": images, "name": names, "vector": np.ones((3, 2), "f4")}, tmp_path / "out", storage="raw")
    with Records(tmp_path / "out") as records:
        assert [sample.columns["name"] for sample in records] == ["a", "bc", "ä"]
        assert records.column("vector").shape == (3, 2)
        assert records[0].channels == 1


@pytest.mark.parametrize(
    "images", [np.zeros((2, 8, 8, 4), np.uint8), np.zeros((2, 8, 8), np.float32), np.zeros((8, 8), np.uint8)]
)
def test_arrays_that_are_not_images_are_refused(images: Any) -> None:
    with pytest.raises(DataError, match="these are not images"):
        source_of(images)


def test_an_iterable_may_give_samples_in_any_form(tmp_path: Path) -> None:
    data = file_of(photo(4, 5), "PNG")
    (tmp_path / "a.png").write_bytes(data)
    forms = [
        Item("a/b", data),
        data,
        tmp_path / "a.png",
        str(tmp_path / "a.png"),
        photo(4, 5),
        {"image": data, "key": "k"},
    ]
    keys = [item.key for item in source_of(iter(forms)).items(0)]
    assert keys == ["a/b", "00000001", "00000002", "00000003", "00000004", "k"]
    assert listed(source_of([(data, 3)])) == [("00000000", {"label": 3})]
    assert [item.key for item in source_of(forms).items(4)] == ["00000004", "k"]


@pytest.mark.parametrize("source", [3, None, b"bytes", {"label": [1]}, Path("/nowhere/at/all"), __file__])
def test_an_object_that_is_not_a_source_is_refused(source: Any) -> None:
    with pytest.raises(DataError):
        source_of(source)


def test_an_iterable_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="sample 0 of the iterable is 3"):
        pack([3], tmp_path / "out")


def test_a_seed_draws_an_order_and_keeps_every_item(tmp_path: Path) -> None:
    source = source_of(class_folder(tmp_path, per_class=20))
    orders = [[item.key for item in shuffled(source, seed).items(0)] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(item.key for item in source.items(0)) != orders[0]
    assert [item.key for item in shuffled(source, 1).items(0)][:3] == orders[0][:3]
    with pytest.raises(DataError, match="can be shuffled"):
        shuffled(source_of([b""]), 1)
