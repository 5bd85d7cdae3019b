"""Tars and folders in WebDataset's layout are packed; invalid items are named with file and byte."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.errors import DataError
from abreast.records import Records, decode, pack
from abreast.records.sources.choose import source_of
from abreast.records.sources.npy import read_npy
from abreast.records.sources.tar_members import members
from tests.records.pieces import contents, photo
from tests.records.shards import jpeg, png, samples, write_tar


def values(source: Any, **settings: Any) -> list[tuple[str, dict[str, Any]]]:
    """Keys and columns; an invalid item is replaced by its error."""
    found = []
    for item in source_of(source, **settings).items(0):
        wrong = [str(each) for each in (item.image, *item.columns.values()) if isinstance(each, DataError)]
        plain = {name: np.asarray(value).tolist() for name, value in item.columns.items()}
        found.append((item.key, {"wrong": wrong} if wrong else plain))
    return found


def test_a_tar_gives_images_classes_and_columns(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", samples(3))
    pack(tmp_path / "a.tar", tmp_path / "out", storage="keep")
    with Records(tmp_path / "out") as records:
        assert [sample.key for sample in records] == ["set/000", "set/001", "set/002"]
        assert [bytes(sample.data) for sample in records] == [png(i) for i in range(3)]
        assert records.column("label").tolist() == [0, 1, 2]
        assert dict(records[2].columns) == {"label": 2, "score": 2.5, "text": "a"}


def test_a_folder_of_tars_is_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    write_tar(tmp_path / "b.tar", samples(2, begin=2))
    write_tar(tmp_path / "a.tar", samples(2))
    assert [key for key, _ in values(tmp_path)] == ["set/000", "set/001", "set/002", "set/003"]
    assert [key for key, _ in values([tmp_path / "b.tar"])] == ["set/002", "set/003"]


def test_each_file_becomes_a_column_of_its_kind(tmp_path: Path) -> None:
    array = io.BytesIO()
    np.save(array, np.array([[1.5, 2]], "<f4"))
    files = {
        "a.JPG": jpeg(),
        "a.txt": "Bild ä".encode(),
        "a.vector.npy": array.getvalue(),
        "a.depth.png": b"\x89PNG",
        "a.pickle": b"\x80\x04.",
        "a.text.bin": b"\1",
        "a.index.cls": b"7",
        "a.json": b'{"boxes": [[1, 2], [3, 4]], "whole": 3, "real": 0.5, "is it": true}',
    }
    write_tar(tmp_path / "a.tar", files.items())
    ((key, columns),) = values(tmp_path / "a.tar")
    assert key == "a"
    assert columns == {
        "txt": "Bild ä",
        "vector": [[1.5, 2.0]],
        "depth_png": b"\x89PNG",
        "pickle": b"\x80\x04.",
        "text": b"\1",
        "index": 7,
        "boxes": [[1, 2], [3, 4]],
        "whole": 3,
        "real": 0.5,
        "is_it": True,
    }


def test_numbers_that_are_whole_in_some_samples_are_decimal_in_all(tmp_path: Path) -> None:
    write_tar(
        tmp_path / "a.tar", [("0.png", png()), ("0.json", b'{"x": 1}'), ("1.png", png()), ("1.json", b'{"x": 0.5}')]
    )
    pack(tmp_path / "a.tar", tmp_path / "out")
    with Records(tmp_path / "out") as records:
        assert records.column("x").tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    ("file", "data", "why"),
    [
        ("0.json", b'{"x": null}', "'x' in the .json is null"),
        ("0.json", b'{"x": {"y": 1}}', "'x' in the .json is {'y': 1}"),
        ("0.json", b'{"x": ["a"]}', "'x' in the .json is ['a']"),
        ("0.json", b'{"x": %d}' % 2**64, "'x' in the .json is 18446744073709551616"),
        ("0.json", b"{", "cannot read .json"),
        ("0.json", b"[" * 100_000, "cannot read .json"),
        ("0.cls", b"cat", ".cls: 'cat' is not a whole number"),
        ("0.txt", b"\xff", "cannot read .txt"),
        ("0.x.npy", b"\x93NUMPY", "not an array of numbers"),
        ("0.jpeg", b"", "several images: it has .png, .jpeg\nhint: name the extension of the image: --image png"),
    ],
)
def test_errors_of_a_sample_are_named(tmp_path: Path, file: str, data: bytes, why: str) -> None:
    write_tar(tmp_path / "a.tar", [("0.png", png()), (file, data)])
    ((_, found),) = values(tmp_path / "a.tar")
    assert why in found["wrong"][0]
    with pytest.raises(DataError, match="number 0 of the source"):
        pack(tmp_path / "a.tar", tmp_path / "out")


def test_the_image_may_be_chosen_where_there_are_several(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("0.png", png()), ("0.jpg", jpeg()), ("1.png", png(1)), ("1.jpg", jpeg(1))])
    pack(tmp_path / "a.tar", tmp_path / "out", storage="keep", image="jpg")
    with Records(tmp_path / "out") as records:
        assert bytes(records[1].data) == jpeg(1) and records[1].columns["png"] == png(1)


def test_samples_without_an_image_are_skipped_or_stop(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("0.txt", b"x"), ("1.png", png()), ("1.txt", b"y")])
    with pytest.raises(DataError, match=r"0 \(number 0 of the source, from 0\): the sample has no image: it has \.txt"):
        pack(tmp_path / "a.tar", tmp_path / "stop")
    summary = pack(tmp_path / "a.tar", tmp_path / "out", on_error="skip")
    assert summary.num_samples == 1 and summary.skipped[0].key == "0"


def test_only_some_columns_may_be_taken_and_renamed(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("0.png", png()), ("0.json", b'{"x": null, "fine": 3, "y": "t"}')])
    with pytest.raises(DataError, match=r"'x' in the \.json is null"):
        pack(tmp_path / "a.tar", tmp_path / "stop")
    pack(tmp_path / "a.tar", tmp_path / "out", columns="label=fine,y")
    with Records(tmp_path / "out") as records:
        assert dict(records[0].columns) == {"label": 3, "y": "t"}
    with pytest.raises(DataError, match="there is no column 'z'\nhint: there are: fine, y"):
        pack(tmp_path / "a.tar", tmp_path / "other", columns=["z"])


def test_names_that_belong_to_no_sample_are_passed_over(tmp_path: Path) -> None:
    names = [("__meta__/x.json", b"{}"), ("README", b""), ("._0.png", b""), (".x.png", b""), ("0.png", png())]
    write_tar(tmp_path / "a.tar", names)
    assert values(tmp_path / "a.tar") == [("0", {})]


def test_members_of_a_tar_of_a_folder_keep_their_keys(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        folder = tarfile.TarInfo("./cat")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        info = tarfile.TarInfo("./cat/0.png")
        info.size = len(png())
        tar.addfile(info, io.BytesIO(png()))
    assert values(tmp_path / "a.tar") == [("cat/0", {})]


@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_every_kind_of_tar_is_read(tmp_path: Path, kind: int) -> None:
    long = "ordner/" * 12 + "ä" * 30
    write_tar(tmp_path / "a.tar", [(f"{long}.png", png()), (f"{long}.cls", b"1"), ("b.png", png(1))], format=kind)
    with tarfile.open(tmp_path / "a.tar") as tar:
        theirs = [(each.name, each.offset_data, each.size) for each in tar if each.isreg()]
    assert [(each.name, each.offset, each.size_bytes) for each in members(tmp_path / "a.tar")] == theirs
    assert [key for key, _ in values(tmp_path / "a.tar")] == [long, "b"]


def test_a_key_that_another_tar_has_gets_a_number(tmp_path: Path) -> None:
    for name in "ab":
        write_tar(tmp_path / f"{name}.tar", [("0.png", png())])
    assert [key for key, _ in values(tmp_path)] == ["0", "0~1"]


@pytest.mark.parametrize(
    "names", [["0.png", "1.png", "0.cls"], ["0.png", "0.png"], ["0.png", "0.PNG"], ["0.png", "1.png", "0.png"]]
)
def test_a_key_that_comes_again_is_named_with_its_place(tmp_path: Path, names: list[str]) -> None:
    write_tar(tmp_path / "a.tar", [(name, png()) for name in names])
    with tarfile.open(tmp_path / "a.tar") as tar:
        again = tar.getmembers()[-1]
    with pytest.raises(DataError, match=rf"a\.tar: '{again.name}', whose bytes begin at {again.offset_data}"):
        pack(tmp_path / "a.tar", tmp_path / "out")


def hostile(path: Path, name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> Path:
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        tar.addfile(info)
    return path


@pytest.mark.parametrize("name", ["/etc/x.png", "../x.png", "a/../../x.png", "..", "a/.."])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"a\.tar: refused: at byte 0 a member has the name"):
        values(hostile(tmp_path / "a.tar", name))


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a pipe"),
        (b"S", "of type"),
    ],
)
def test_a_member_that_is_not_a_file_is_refused(tmp_path: Path, kind: bytes, what: str) -> None:
    with pytest.raises(DataError, match=rf"at byte 0 the member 'x\.png' is {what}"):
        values(hostile(tmp_path / "a.tar", "x.png", kind, "/etc/passwd"))


def test_nothing_is_unpacked(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", samples(2))
    pack(tmp_path / "a.tar", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "out"]


def test_a_tar_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    """Up to the block of zeros that ends it: Python's own reader takes each of these for a whole tar of fewer files."""
    data = write_tar(tmp_path / "whole.tar", samples(2)).read_bytes()
    with tarfile.open(tmp_path / "whole.tar") as tar:
        last = tar.getmembers()[-1]
    end = last.offset_data + 512
    cut = tmp_path / "cut.tar"
    for size in range(0, end + 512, 37):
        cut.write_bytes(data[:size])
        with pytest.raises(DataError, match=r"cut\.tar.*(cut off|at byte)"):
            list(members(cut))
    cut.write_bytes(data[: end + 512])
    assert len(list(members(cut))) == 6


def test_a_changed_header_is_refused_with_its_place(tmp_path: Path) -> None:
    data = bytearray(write_tar(tmp_path / "a.tar", samples(2)).read_bytes())
    with tarfile.open(tmp_path / "a.tar") as tar:
        begin = tar.getmembers()[3].offset
    for place in range(begin, begin + 345, 7):
        broken = bytearray(data)
        broken[place] ^= 4
        (tmp_path / "b.tar").write_bytes(broken)
        with pytest.raises(DataError, match=f"at byte {begin} there is no header"):
            list(members(tmp_path / "b.tar"))


def test_a_giant_size_is_refused(tmp_path: Path) -> None:
    for size in (b"77777777777\0", b"\x80" + b"\xff" * 11):
        data = bytearray(write_tar(tmp_path / "a.tar", samples(1)).read_bytes())
        data[124:136] = size
        data[148:156] = b"%06o\0 " % (sum(data[:148]) + 256 + sum(data[156:512]))
        (tmp_path / "b.tar").write_bytes(data)
        with pytest.raises(DataError, match=r"at byte 0 a member of \d+ bytes is cut off"):
            list(members(tmp_path / "b.tar"))


def test_concatenated_tars_are_refused(tmp_path: Path) -> None:
    data = write_tar(tmp_path / "a.tar", samples(1)).read_bytes()
    (tmp_path / "b.tar").write_bytes(data + data)
    with pytest.raises(DataError, match=r"b\.tar has data after its end"):
        list(members(tmp_path / "b.tar"))


def test_a_compressed_tar_is_refused(tmp_path: Path) -> None:
    for name in ("a.tar.gz", "b.tar"):
        with tarfile.open(tmp_path / name, "w:gz") as tar:
            tar.addfile(tarfile.TarInfo("a.png"))
        with pytest.raises(DataError, match="hint: decompress it first"):
            values(tmp_path / name)


def test_files_in_a_folder_are_samples_where_something_lies_beside_an_image(tmp_path: Path) -> None:
    for name, data in samples(2):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    write_tar(tmp_path / "a.tar", samples(2))
    assert values(tmp_path / "in") == values(tmp_path / "a.tar")
    pack(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in" / "set" / "000.cls").write_text("2")
    with pytest.raises(DataError, match="begun with another source"):
        pack(tmp_path / "in", tmp_path / "out")


def test_captions_beside_images_are_columns(tmp_path: Path) -> None:
    for i in range(2):
        (tmp_path / f"{i}.png").write_bytes(png(i))
        (tmp_path / f"{i}.txt").write_text(f"caption {i}")
    assert values(tmp_path) == [("0", {"txt": "caption 0"}), ("1", {"txt": "caption 1"})]


def test_images_beside_shards_are_refused(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", samples(1))
    (tmp_path / "x.png").write_bytes(png())
    with pytest.raises(DataError, match=r"has images beside shards such as a\.tar"):
        source_of(tmp_path)


def test_a_changed_tar_is_refused_after_a_stop(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", samples(2))
    pack(tmp_path / "a.tar", tmp_path / "out")
    assert pack(tmp_path / "a.tar", tmp_path / "out").num_now == 0
    write_tar(tmp_path / "a.tar", samples(3))
    with pytest.raises(DataError, match="begun with another source"):
        pack(tmp_path / "a.tar", tmp_path / "out")


def test_a_seed_draws_an_order_of_tars_too(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", samples(8))
    for name in ("one", "two"):
        pack(tmp_path / "a.tar", tmp_path / name, storage="keep", shuffle_seed=3)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    with Records(tmp_path / "one") as records:
        keys = [sample.key for sample in records]
        assert keys != sorted(keys) == [f"set/{i:03d}" for i in range(8)]
        assert all(bytes(sample.data) == png(int(sample.key[-3:])) for sample in records)


# In a process of its own: it imports PyTorch, which pytest must not.
_WRITE = """
import sys, numpy as np
import webdataset
from tests.records.shards import png
with webdataset.ShardWriter(sys.argv[1] + "/w-%03d.tar", maxcount=3, verbose=0) as sink:
    for i in range(7):
        sink.write({"__key__": f"a/{i:04d}", "png": png(i), "cls": i, "json": {"text": f"t{i}"},
                    "vector.npy": np.full(3, i, "f4"), "txt": "caption"})
"""


def test_tars_that_webdataset_writes_are_packed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    subprocess.run([sys.executable, "-W", "ignore", "-c", _WRITE, str(tmp_path / "in")], check=True, timeout=120)
    assert len(list((tmp_path / "in").glob("*.tar"))) == 3
    pack(tmp_path / "in", tmp_path / "out", storage="keep")
    with Records(tmp_path / "out") as records:
        assert [bytes(sample.data) for sample in records] == [png(i) for i in range(7)]
        assert records.column("label").tolist() == list(range(7))
        assert [sample.columns["vector"].tolist() for sample in records] == [[i] * 3 for i in range(7)]
        assert {sample.columns["txt"] for sample in records} == {"caption"}
        assert [sample.columns["text"] for sample in records] == [f"t{i}" for i in range(7)]


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize("dtype", ["?", "u1", ">i4", "<f2", "f8"])
def test_arrays_are_read_as_numpy_reads_them(dtype: str) -> None:
    for array in (np.arange(12).reshape(3, 4).astype(dtype), np.asfortranarray(np.ones((3, 2), dtype)), np.ones(0)):
        np.testing.assert_array_equal(read_npy(npy(array)), array)


def test_arrays_that_are_damaged_or_pickled_are_refused() -> None:
    whole = npy(np.arange(6))
    for size in range(len(whole)):
        with pytest.raises(DataError):
            read_npy(whole[:size])
    giant = whole.replace(b"(6,)", b"(6000000000000,)")
    for data in (whole + b"\0", npy(np.array([{}])), npy(np.array(["a"])), giant, whole.replace(b"(6,)", b"(-6,)")):
        with pytest.raises(DataError, match="not an array of numbers"):
            read_npy(data)


def test_an_image_of_the_raw_storage_is_an_array(tmp_path: Path) -> None:
    pixels = photo(4, 5)
    write_tar(tmp_path / "a.tar", [("0.npy", npy(pixels)), ("0.cls", b"1")])
    pack(tmp_path / "a.tar", tmp_path / "out", storage="png")
    with Records(tmp_path / "out") as records:
        np.testing.assert_array_equal(decode(records[0]), pixels)
