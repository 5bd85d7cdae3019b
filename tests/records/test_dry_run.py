"""What would fail is listed before anything is written, and what was skipped is in a file beside the data set."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from abreast import cli
from abreast.errors import DataError
from abreast.records import Item, pack
from tests.harness.crashes import Failing
from tests.records.pieces import class_folder, contents, known, photo
from tests.records.test_labels import csv_of


def broken_folder(folder: Path) -> Path:
    """Eight images, and two files that are none."""
    class_folder(folder)
    (folder / "cat" / "x.jpg").write_bytes(b"no image")
    (folder / "dog" / "y\n.jpg").write_bytes(b"")
    return folder


def test_a_dry_run_lists_what_would_fail_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = broken_folder(tmp_path / "in")
    before = contents(tmp_path)
    assert cli.main(["pack", str(source), str(tmp_path / "out"), "--dry-run"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith(
        f"{tmp_path / 'out'}: 10 images, 8 can be packed: about 0.0 MB; nothing is written\nwould fail: 2\n"
    )
    assert f"  {source}/cat/x.jpg: cannot read the image" in out and "dog/y\\n.jpg: " in out and err == ""
    assert contents(tmp_path) == before and not (tmp_path / "out").exists()


def test_a_dry_run_counts_the_bytes_of_index_and_columns(tmp_path: Path) -> None:
    """Small images, for which headers and columns are most of the bytes."""
    items = [Item(f"photo/{i}", photo(40, 60, seed=i), {"word": "owl" * i, "x": [1.0] * 5}) for i in range(40)]
    about = pack(known(items), tmp_path / "out", dry_run=True).file_bytes
    assert about == pytest.approx(pack(known(items), tmp_path / "out").file_bytes, rel=0.03)


def test_a_dry_run_of_a_good_source_succeeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = class_folder(tmp_path / "in")
    arguments = ["pack", str(source), str(tmp_path / "out"), "--split", "a=0.5,b=0.5"]
    assert cli.main([*arguments, "--dry-run"]) == 0
    assert capsys.readouterr().out.count("nothing is written") == 2
    assert not (tmp_path / "out").exists()
    assert cli.main(arguments) == 0


def test_a_dry_run_finds_what_is_wrong_with_columns_and_keys(tmp_path: Path) -> None:
    items = [Item(key, photo(8, 8), {"x": x}) for key, x in [("a", 1), ("a", 2), ("b", "three"), ("c", 4)]]
    summary = pack(known(items), tmp_path / "out", dry_run=True)
    assert [note.text for note in summary.skipped] == [
        "two samples have the key 'a'",
        "column 'x' of type int64 cannot hold 'three'",
    ]
    assert summary.num_samples == 2 and summary.dry_run


def test_a_dry_run_lists_all_empty_labels(tmp_path: Path) -> None:
    table = csv_of(tmp_path / "in", x=["cat", "", "dog", " "])
    summary = pack(table, tmp_path / "out", label="x", dry_run=True)
    assert [(note.position, note.text) for note in summary.skipped] == [
        (1, "column 'x' is empty"),
        (3, "column 'x' is empty"),
    ]


def test_a_dry_run_refuses_what_a_packing_would_refuse(tmp_path: Path) -> None:
    source = class_folder(tmp_path / "in")
    pack(source, tmp_path / "out", quality=80)
    before = contents(tmp_path / "out")
    with pytest.raises(DataError, match="was begun with quality=80, and this command has quality=90"):
        pack(source, tmp_path / "out", quality=90, dry_run=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    with pytest.raises(DataError, match="is not empty"):
        pack(source, tmp_path / "mine", dry_run=True)
    assert pack(source, tmp_path / "out", quality=80, dry_run=True).num_samples == 8
    pack([photo(8, 8)], tmp_path / "drawn")
    with pytest.raises(DataError, match="an iterable cannot show that its samples are the same"):
        pack([photo(8, 8)], tmp_path / "drawn", dry_run=True)
    assert contents(tmp_path / "out") == before


def test_skipped_files_are_in_a_file_beside_the_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = broken_folder(tmp_path / "in")
    assert cli.main(["pack", str(source), str(tmp_path / "out"), "--on-error", "skip"]) == 0
    listed = tmp_path / "out.skipped.txt"
    assert f"all that are skipped: {listed}" in capsys.readouterr().out
    lines = [line.split("\t") for line in listed.read_text().splitlines()]
    assert [name for name, _ in lines] == [f"{source}/cat/x.jpg", f"{source}/dog/y\\n.jpg"]
    assert all(reason.startswith("cannot read the image") for _, reason in lines)
    assert pack(source, tmp_path / "out", on_error="skip").skipped_file == listed
    listed.unlink()
    assert pack(source, tmp_path / "out", on_error="skip").skipped_file is None


def test_a_packer_that_continues_repeats_no_line(tmp_path: Path) -> None:
    source = broken_folder(tmp_path / "in")
    settings: Any = {"on_error": "skip", "shard_mb": 0.005, "threads": 1}
    num_begun = 0
    for at in range(40, 140, 9):
        with (
            mock.patch("abreast.records.packing.packer.Files", return_value=Failing(at, errno.EIO)),
            contextlib.suppress(DataError),
        ):
            pack(source, tmp_path / str(at), **settings)
        listed = tmp_path / f"{at}.skipped.txt"
        begun = listed.read_text() if listed.exists() else ""
        pack(source, tmp_path / str(at), **settings)
        assert listed.read_text().startswith(begun) and listed.read_text().count("\n") == 2
        num_begun += begun.count("\n") == 1
    assert num_begun > 1  # stopped between the two


def test_a_new_data_set_begins_a_new_file(tmp_path: Path) -> None:
    source = broken_folder(tmp_path / "in")
    listed = tmp_path / "out.skipped.txt"
    listed.write_text("of an earlier one\n")
    assert pack(source, tmp_path / "out", on_error="skip", split="a=0.5,b=0.5").skipped_file == listed
    assert len(listed.read_text().splitlines()) == 2 and "earlier" not in listed.read_text()
    other = tmp_path / "other.skipped.txt"
    other.write_text("of an earlier one\n")
    summary = pack(class_folder(tmp_path / "good"), tmp_path / "other", on_error="skip")
    assert summary.skipped_file is None and not other.exists()
    third = tmp_path / "third.skipped.txt"
    third.write_text("of an earlier one\n")
    pack(tmp_path / "good", tmp_path / "third", dry_run=True)
    assert third.exists()
    pack(tmp_path / "good", tmp_path / "third")
    assert not third.exists()


def test_a_file_that_cannot_be_written_stops_no_packing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out.skipped.txt").mkdir()
    summary = pack(broken_folder(tmp_path / "in"), tmp_path / "out", on_error="skip")
    assert summary.num_samples == 8 and len(summary.skipped) == 2 and summary.skipped_file is None
    assert capsys.readouterr().err.count("cannot write") == 1


def test_a_long_name_leaves_no_room_for_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The data set is packed all the same. A name that is too long for the folder itself is refused."""
    summary = pack(broken_folder(tmp_path / "in"), tmp_path / ("x" * 250), on_error="skip")
    assert len(summary.skipped) == 2 and summary.skipped_file is None
    assert capsys.readouterr().err.count("cannot write") == 1
    with pytest.raises(DataError, match="File name too long"):
        pack(tmp_path / "in", tmp_path / ("x" * 300), on_error="skip")
