"""Packing: its output, skipped items, continuing after a stop, and that nothing depends on threads."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.durable_files import Files
from abreast.errors import DataError
from abreast.records import Item, Progress, Records, decode, pack, verify
from abreast.records.format.manifest import LOCK, MANIFEST, PACKING, bound
from abreast.records.packing.prepare import Storage
from tests.harness.crashes import Failing
from tests.records.pieces import class_folder, contents, file_of, items, known, photo, small_pack


def test_a_folder_is_packed_with_labels_and_class_names(tmp_path: Path) -> None:
    summary = pack(class_folder(tmp_path / "in"), tmp_path / "out")
    assert (summary.num_samples, summary.num_shards, summary.skipped) == (8, 1, ())
    with Records(tmp_path / "out") as records:
        assert records.class_names == ("cat", "dog")
        assert records.column("label").tolist() == [0] * 4 + [1] * 4
        assert [sample.key for sample in records][:2] == ["cat/0", "cat/1"]
        assert {sample.encoding for sample in records} == {"jpg"}
        assert all(len(sample.restarts) for sample in records)
    assert sorted(contents(tmp_path / "out")) == ["manifest.json", "shard-00000.index", "shard-00000.tar"]


@pytest.mark.parametrize("storage", ["raw", "png"])
def test_lossless_storages_keep_every_pixel(tmp_path: Path, storage: Storage) -> None:
    samples = items(5)
    pack(samples, tmp_path / "out", storage=storage, shard_mb=0.01)
    with Records(tmp_path / "out") as records:
        for sample, item in zip(records, samples, strict=True):
            np.testing.assert_array_equal(decode(sample), item.image)
            np.testing.assert_array_equal(sample.columns["boxes"], item.columns["boxes"])
            assert (sample.key, sample.columns["text"]) == (item.key, item.columns["text"])


def test_jpeg_is_near_to_the_pixels(tmp_path: Path) -> None:
    pixels = np.repeat(np.repeat(photo(30, 30), 4, axis=0), 4, axis=1)
    pack([pixels], tmp_path / "out", quality=95)
    with Records(tmp_path / "out") as records:
        assert np.abs(decode(records[0]).astype(int) - pixels).mean() < 4  # measured 3.4: grain of 30 x 30 at 4:2:0


def test_kept_files_keep_every_byte(tmp_path: Path) -> None:
    files = [
        file_of(photo(40, 64), "JPEG", restart_marker_blocks=2),
        file_of(photo(40, 64), "JPEG", progressive=True),
        file_of(photo(9, 9), "WEBP"),
        file_of(photo(9, 9), "PNG"),
    ]
    pack(files, tmp_path / "out", storage="keep")
    with Records(tmp_path / "out") as records:
        assert [bytes(sample.data) for sample in records] == files
        assert [sample.encoding for sample in records] == ["jpg", "jpg", "webp", "png"]
        assert [len(sample.restarts) > 0 for sample in records] == [True, False, False, False]


def test_a_size_makes_larger_images_smaller(tmp_path: Path) -> None:
    pack([photo(40, 80), photo(10, 20)], tmp_path / "out", size=20, storage="raw")
    with Records(tmp_path / "out") as records:
        assert [(sample.height, sample.width) for sample in records] == [(20, 40), (10, 20)]


def test_bytes_do_not_depend_on_threads(tmp_path: Path) -> None:
    folder = class_folder(tmp_path / "in", per_class=10)
    packed = []
    for threads in (1, 4):
        pack(folder, tmp_path / str(threads), threads=threads, shard_mb=0.02)
        packed.append(contents(tmp_path / str(threads)))
    assert packed[0] == packed[1]
    assert len(packed[0]) > 5


def bad_folder(folder: Path) -> Path:
    """Eight images, two of which cannot be packed."""
    class_folder(folder)
    (folder / "cat" / "1.jpg").write_bytes(b"no image")
    frames = [photo(8, 8, seed=seed) for seed in range(2)]
    from PIL import Image

    moving = file_of(Image.fromarray(frames[0]), "GIF", save_all=True, append_images=[Image.fromarray(frames[1])])
    (folder / "dog" / "2.gif").write_bytes(moving)
    return folder


def test_a_bad_image_stops_the_packer_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cat/1\.jpg \(number 1 of the source, from 0\): cannot read") as caught:
        pack(bad_folder(tmp_path / "in"), tmp_path / "out")
    assert "--on-error skip" in str(caught.value)
    with pytest.raises(DataError, match="is not completely packed"):
        Records(tmp_path / "out")


def test_bad_images_are_skipped_and_listed(tmp_path: Path) -> None:
    summary = pack(bad_folder(tmp_path / "in"), tmp_path / "out", on_error="skip")
    assert summary.num_samples == 7
    assert [Path(note.key).name for note in summary.skipped] == ["1", "2"]
    assert "skipped: 2" in str(summary) and "animated" in str(summary)
    with Records(tmp_path / "out") as records:
        assert records.notes() == summary.notes
        assert records.manifest.num_skipped == 2


def test_a_stopped_packer_goes_on_when_it_may_skip(tmp_path: Path) -> None:
    folder = bad_folder(tmp_path / "in")
    with pytest.raises(DataError):
        pack(folder, tmp_path / "out")
    assert pack(folder, tmp_path / "out", on_error="skip").num_samples == 7


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (Item("group/000", photo(4, 4), {"label": 1}), "two samples have the key"),
        (Item("../x", photo(4, 4), {"label": 1}), "cannot have the key"),
        (Item("x", photo(4, 4), {}), "the sample has the columns"),
        (Item("x", photo(4, 4), {"label": "one"}), "column 'label'"),
        (Item("x", np.zeros((4, 4), np.float32), {"label": 1}), "this is not an image"),
        (Item("x", Path("/nowhere.jpg"), {"label": 1}), "there is no such file"),
        (Item("x", "text", {"label": 1}), "a path, bytes or an array"),  # type: ignore[arg-type]
    ],
)
def test_a_sample_that_cannot_be_stored_is_refused_by_name(tmp_path: Path, second: Item, why: str) -> None:
    samples = [Item("group/000", photo(4, 4), {"label": 0}), second]
    with pytest.raises(DataError, match=f"number 1 of the source.*{why}"):
        pack(samples, tmp_path / "stop", storage="raw")
    summary = pack(samples, tmp_path / "skip", storage="raw", on_error="skip")
    assert summary.num_samples == 1 and why in summary.skipped[0].text


def test_columns_may_come_in_any_order(tmp_path: Path) -> None:
    columns = {"a": 1, "b": "x"}
    pack([Item("0", photo(4, 4), columns), Item("1", photo(4, 4), dict(reversed(columns.items())))], tmp_path / "out")
    with Records(tmp_path / "out") as records:
        assert [dict(sample.columns) for sample in records] == [columns, columns]


def test_nothing_to_pack_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no image to pack .* all 1 are skipped; the first, 00000000: cannot read"):
        pack([b"bad"], tmp_path / "out", on_error="skip")
    assert contents(tmp_path / "out") == {}


class Stop(Exception):
    pass


def stopping(samples: list[Item], after: int) -> Iterator[Item]:
    yield from samples[:after]
    raise Stop


@pytest.mark.parametrize("after", range(15))
def test_a_stopped_packer_goes_on_to_the_same_bytes(tmp_path: Path, after: int) -> None:
    """Some samples are bad, so that notes must come out the same too."""
    samples = items(14)
    for bad in (0, 5, 6, 13):
        samples[bad] = Item("bad", b"bad", {})
    settings: dict[str, Any] = {"storage": "raw", "shard_mb": 0.01, "threads": 1, "on_error": "skip"}
    pack(samples, tmp_path / "whole", **settings)
    with pytest.raises(Stop):
        pack(stopping(samples, after), tmp_path / "out", **settings)
    summary = pack(samples, tmp_path / "out", **settings)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert len(summary.skipped) == 4


def test_notes_of_items_skipped_after_the_last_shard_stay_with_it(tmp_path: Path) -> None:
    """All samples that the stopped packer had left are bad when it continues, so that no other shard follows."""
    samples = items(14)
    samples[1] = Item("first", b"bad", {})
    settings: dict[str, Any] = {"storage": "raw", "shard_mb": 0.01, "threads": 1, "on_error": "skip"}
    with pytest.raises(Stop):
        pack(known(stopping(samples, 12)), tmp_path / "out", **settings)
    bad = [*samples[:4], *(Item(f"bad{i}", b"bad", {}) for i in range(4, 14))]
    summary = pack(known(bad), tmp_path / "out", **settings)
    done = summary.num_samples + 1
    assert 1 < done < 14 and [note.position for note in summary.skipped] == [1, *range(done, 14)]
    with Records(tmp_path / "out") as records:
        assert records.notes() == summary.notes
        assert records.manifest.num_skipped == len(summary.skipped)
    assert pack(known(bad), tmp_path / "out", **settings).notes == summary.notes
    assert verify(tmp_path / "out") == []


def test_a_stop_while_the_last_index_gets_its_notes_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each call by which the packer changes files."""
    samples = items(14)
    bad = [*samples[:4], *(Item(f"bad{i}", b"bad", {}) for i in range(4, 14))]
    settings: dict[str, Any] = {"storage": "raw", "shard_mb": 0.01, "threads": 1, "on_error": "skip"}
    with pytest.raises(Stop):
        pack(known(stopping(samples, 12)), tmp_path / "begun", **settings)
    shutil.copytree(tmp_path / "begun", tmp_path / "whole")
    pack(known(bad), tmp_path / "whole", **settings)
    calls = Failing(0)
    monkeypatch.setattr("abreast.records.packing.packer.Files", lambda: calls)
    stopped = 0
    for at in itertools.count(1):
        folder, calls = tmp_path / str(at), Failing(at)
        shutil.copytree(tmp_path / "begun", folder)
        try:
            pack(known(bad), folder, **settings)
        except DataError:
            stopped += 1
            calls = Failing(0)
            pack(known(bad), folder, **settings)
        assert contents(folder) == contents(tmp_path / "whole")
        if not calls.at:
            continue
        assert not calls.failed
        break
    assert stopped > 8


def test_notes_outlive_a_stop_before_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All shards exist when it continues, and it packs nothing."""
    samples = items(14)
    for bad in (0, 5, 13):
        samples[bad] = Item(f"bad{bad}", b"bad", {})
    settings: dict[str, Any] = {"storage": "raw", "shard_mb": 0.01, "threads": 1, "on_error": "skip"}
    whole = pack(known(samples), tmp_path / "whole", **settings)

    def rename(self: Files, old: Path, new: Path) -> None:
        if new.name == MANIFEST:
            raise Stop
        os.rename(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "rename", rename)
        with pytest.raises(Stop):
            pack(known(samples), tmp_path / "out", **settings)
    summary = pack(known(samples), tmp_path / "out", **settings)
    assert (summary.num_now, summary.notes) == (0, whole.notes) and len(summary.skipped) == 3
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_packed_shards_are_not_packed_again(tmp_path: Path) -> None:
    samples = items(14)
    with pytest.raises(Stop):
        pack(known(stopping(samples, 12)), tmp_path / "out", storage="raw", shard_mb=0.01, threads=1)
    assert 0 < small_pack(tmp_path / "out", 14).num_now < 14
    assert small_pack(tmp_path / "out", 14).num_now == 0


def test_a_whole_data_set_stays_as_it_is(tmp_path: Path) -> None:
    small_pack(tmp_path / "out")
    before = contents(tmp_path / "out")
    summary = small_pack(tmp_path / "out")
    assert (summary.num_samples, summary.num_now) == (7, 0)
    assert "all were packed already" in str(summary)
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("whole", [True, False])
def test_other_settings_for_the_same_folder_are_refused(tmp_path: Path, whole: bool) -> None:
    if whole:
        small_pack(tmp_path / "out")
    else:
        with pytest.raises(Stop):
            pack(known(stopping(items(14), 12)), tmp_path / "out", storage="raw", shard_mb=0.01, threads=1)
    with pytest.raises(
        DataError, match="begun with size=None, storage='raw', and this command has size=4, storage='png'"
    ):
        pack(known(items(7)), tmp_path / "out", storage="png", size=4, shard_mb=0.01)


def test_another_source_for_the_same_folder_is_refused(tmp_path: Path) -> None:
    folder = class_folder(tmp_path / "in")
    pack(folder, tmp_path / "out")
    (folder / "cat" / "new.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="begun with another source"):
        pack(folder, tmp_path / "out")


def test_a_command_that_packed_no_shard_leaves_the_folder_to_another(tmp_path: Path) -> None:
    source, listed = class_folder(tmp_path / "in"), tmp_path / "in" / "list.csv"
    listed.write_text("path\ncat/0.jpg\nnothing.jpg\n")
    with pytest.raises(DataError, match="there is no such file"):
        pack(listed, tmp_path / "out")
    listed.write_text("path\ncat/0.jpg\n")
    assert pack(listed, tmp_path / "out", dry_run=True).num_samples == 1
    assert pack(listed, tmp_path / "out").num_samples == 1
    shutil.rmtree(tmp_path / "out")
    listed.write_text("path\nnothing.jpg\n")
    with pytest.raises(DataError, match="there is no such file"):
        pack(listed, tmp_path / "out", size=100)
    assert pack(source, tmp_path / "out", quality=80).num_samples == 8


def test_lines_of_a_command_that_packed_no_shard_are_not_kept(tmp_path: Path) -> None:
    class_folder(tmp_path / "in")
    listed = tmp_path / "in" / "list.csv"
    listed.write_text("path\nnothing.jpg\n")
    with pytest.raises(DataError, match="all 1 are skipped"):
        pack(listed, tmp_path / "out", on_error="skip")
    (tmp_path / "out" / "packing.json").write_bytes(bound({"source": None}))  # as after a kill
    listed.write_text("path\ncat/0.jpg\nmissing.jpg\n")
    skipped = pack(listed, tmp_path / "out", on_error="skip").skipped_file
    assert skipped is not None and "missing.jpg" in skipped.read_text() and "nothing.jpg" not in skipped.read_text()


def test_a_source_that_changed_is_reported_in_words(tmp_path: Path) -> None:
    class_folder(tmp_path / "in")
    listed = tmp_path / "in" / "list.csv"
    listed.write_text("path\ncat/0.jpg\n")
    pack(listed, tmp_path / "out")
    listed.write_text("path\ncat/0.jpg\ncat/1.jpg\n")
    changes: list[tuple[dict[str, Any], str]] = [
        ({}, "was begun with another source, or this one has changed since"),
        ({"size": 9}, "begun with size=None, and this command has size=9; its source is another, or has changed since"),
    ]
    for settings, words in changes:
        with pytest.raises(DataError) as caught:
            pack(listed, tmp_path / "out", **settings)
        assert f"{words}: it had 1 item, this one has 2" in str(caught.value)
        assert "sha256" not in str(caught.value)


def packed_again(source: Any, other: Any, dest: Path) -> None:
    """Pack both into one folder; the second is to be refused, and nothing is to change."""
    pack(source, dest, storage="raw")
    before = contents(dest)
    with pytest.raises(DataError, match="begun with another source"):
        pack(other, dest, storage="raw")
    assert contents(dest) == before


def test_another_folder_with_the_same_names_is_refused(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 50)):
        (tmp_path / name / "cat").mkdir(parents=True)
        (tmp_path / name / "cat" / "0.png").write_bytes(file_of(photo(8, 8, seed=seed), "PNG"))
    packed_again(tmp_path / "a", tmp_path / "b", tmp_path / "out")


@pytest.mark.parametrize("what", ["time", "content", "class"])
def test_a_folder_that_changed_is_refused(tmp_path: Path, what: str) -> None:
    source, dest = class_folder(tmp_path / "in"), tmp_path / "out"
    pack(source, dest)
    file = source / "cat" / "0.jpg"
    if what == "time":
        os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    elif what == "content":
        modified = file.stat().st_mtime_ns
        file.write_bytes(file.read_bytes() + b"\0")
        os.utime(file, ns=(0, modified))
    else:
        (source / "zebra").mkdir()
    with pytest.raises(DataError, match="begun with another source"):
        pack(source, dest)


def test_a_folder_that_moved_is_the_same(tmp_path: Path) -> None:
    pack(class_folder(tmp_path / "in"), tmp_path / "out")
    (tmp_path / "in").rename(tmp_path / "moved")
    assert pack(tmp_path / "moved", tmp_path / "out").num_now == 0


def test_other_arrays_of_the_same_shape_are_refused(tmp_path: Path) -> None:
    images, labels = np.stack([photo(8, 9, seed=i) for i in range(3)]), np.arange(3)
    other = images.copy()
    other[2, 7, 8, 2] ^= 1
    packed_again((images, labels), (other, labels), tmp_path / "a")
    packed_again((images, labels), (images, labels + 1), tmp_path / "b")
    assert pack((images.copy(), labels.copy()), tmp_path / "a", storage="raw").num_now == 0


def test_an_iterable_is_not_taken_for_one_that_is_packed(tmp_path: Path) -> None:
    pack(items(3), tmp_path / "out", storage="raw")
    with pytest.raises(DataError, match="packed already") as caught:
        pack(items(3), tmp_path / "out", storage="raw")
    assert "hint: remove it" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: s[1:], "sample 0 had the key"),
        (lambda s: s[:1], "ends before sample 1"),
        (
            lambda s: [Item(s[0].key, s[0].image, {**s[0].columns, "label": 7}), *s[1:]],
            "column 'label' of sample 0 has changed",
        ),
        (lambda s: [Item(s[0].key, s[0].image, {"label": 0}), *s[1:]], "sample 0 had the columns"),
        (lambda s: [*s[:1], s[2], s[1], *s[3:]], "sample 1 had the key"),
    ],
)
def test_another_iterable_does_not_continue_a_stopped_packing(tmp_path: Path, change: Any, why: str) -> None:
    samples = items(14)
    samples[1] = Item("bad", b"bad", {})
    settings: dict[str, Any] = {"storage": "raw", "shard_mb": 0.01, "threads": 1, "on_error": "skip"}
    with pytest.raises(Stop):
        pack(stopping(samples, 12), tmp_path / "out", **settings)
    before = contents(tmp_path / "out")
    with pytest.raises(DataError, match=why):
        pack(iter(change(samples)), tmp_path / "out", **settings)
    assert contents(tmp_path / "out") == before
    assert pack(iter(samples), tmp_path / "out", **settings).num_samples == 13


def test_a_generator_may_fill_the_same_memory_again(tmp_path: Path) -> None:
    def reusing() -> Iterator[Any]:
        image, vector = np.empty((4, 4), np.uint8), np.empty(2)
        for number in range(40):
            image[:], vector[:] = number, number
            yield {"image": image, "vector": vector}

    pack(reusing(), tmp_path / "out", storage="raw", threads=2)
    with Records(tmp_path / "out") as records:
        assert [int(decode(sample)[0, 0, 0]) for sample in records] == list(range(40))
        assert [sample.columns["vector"].tolist() for sample in records] == [[i, i] for i in range(40)]


def test_a_folder_is_not_packed_into_itself(tmp_path: Path) -> None:
    source = class_folder(tmp_path / "in")
    for dest in (source, source / "out", tmp_path / "in" / ".." / "in" / "cat" / "x"):
        with pytest.raises(DataError, match="is inside of"):
            pack(source, dest)
    assert not (source / "out").exists()


def test_a_link_to_itself_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(DataError, match=r"cannot write .*loop"):
        pack(class_folder(tmp_path / "in"), tmp_path / "loop")


def test_numpys_integers_are_settings_too(tmp_path: Path) -> None:
    size: Any = np.int64(8)
    pack([photo(16, 16)], tmp_path / "out", size=size, storage="raw", threads=size)
    with Records(tmp_path / "out") as records:
        assert records[0].height == 8


def test_text_that_is_not_utf8_is_skipped(tmp_path: Path) -> None:
    samples = [Item("a", photo(4, 4), {"text": "x"}), Item("b", photo(4, 4), {"text": "\ud800"})]
    summary = pack(samples, tmp_path / "out", storage="raw", on_error="skip")
    assert [note.key for note in summary.skipped] == ["b"] and "not valid UTF-8" in summary.skipped[0].text


def test_notes_name_no_place_outside(tmp_path: Path) -> None:
    source = bad_folder(tmp_path / "in")
    (source / "dog" / "9.jpg").symlink_to(tmp_path / "gone.jpg")
    summary = pack(source, tmp_path / "out", on_error="skip")
    assert [note.key for note in summary.skipped] == ["cat/1", "dog/2", "dog/9"]
    assert not [name for name, data in contents(tmp_path / "out").items() if str(tmp_path).encode() in data]


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="is not empty"):
        small_pack(tmp_path / "out")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DataError, match="not a folder"):
        small_pack(tmp_path / "file")
    assert contents(tmp_path) == {"out/thesis.txt": b"mine", "file": b"mine"}


def test_a_second_packer_is_refused(tmp_path: Path) -> None:
    """Another process packs, and waits in the middle."""
    script = (
        "import sys\nfrom tests.records.pieces import *\n"
        "def slow():\n    yield from items(5)\n    print('half', flush=True)\n    sys.stdin.read()\n    yield items(7)[6]\n"
        "pack(slow(), sys.argv[1], storage='raw', shard_mb=0.01, threads=1)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None and first.stdin is not None
        assert first.stdout.readline() == "half\n"
        before = contents(tmp_path / "out")
        with pytest.raises(DataError, match="another packer is writing"):
            small_pack(tmp_path / "out")
        assert contents(tmp_path / "out") == before
        first.stdin.close()
        assert first.wait(60) == 0
    with Records(tmp_path / "out") as records:
        assert len(records) == 6
    assert not (tmp_path / "out" / LOCK).exists()


def test_one_of_many_packers_at_once_wins(tmp_path: Path) -> None:
    results: list[str] = []

    def race() -> None:
        try:
            results.append(f"packed {small_pack(tmp_path / 'out').num_now}")
        except DataError as error:
            results.append(error.message.partition(" ")[0])

    for _ in range(5):
        threads = [threading.Thread(target=race) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert results.count("packed 7") == 1
    assert set(results) <= {"packed 7", "packed 0", "another"}
    with Records(tmp_path / "out") as records:
        assert len(records) == 7


def test_files_of_a_stopped_packer_are_removed(tmp_path: Path) -> None:
    small_pack(tmp_path / "whole")
    with pytest.raises(Stop):
        pack(known(stopping(items(7), 6)), tmp_path / "out", storage="raw", shard_mb=0.01, threads=1)
    for name in ("shard-00001.tar", "shard-00007.index", "shard-00002.tar.part", MANIFEST + ".part"):
        (tmp_path / "out" / name).write_bytes(b"left")
    small_pack(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert not (tmp_path / "out" / PACKING).exists()


def test_progress_shows_the_share_done_and_the_time_left(tmp_path: Path) -> None:
    heard: list[Progress] = []
    small_pack(tmp_path / "out", progress=heard.append)
    assert (heard[-1].num_done, heard[-1].num_items, heard[-1].num_skipped) == (7, 7, 0)
    assert str(Progress(500, 400, 1000, 2, 10.0)) == "500 of 1,000 images, 40 images/s, 12.5 s left, 2 skipped"
    assert str(Progress(5, 5, None, 0, 2.0)) == "5 images, 2 images/s"
    assert str(Progress(1, 1, 10_000, 0, 1.0)) == "1 of 10,000 images, 1 images/s, 2:46:39 left"


@pytest.mark.parametrize(
    "settings",
    [
        {"storage": "webp"},
        {"storage": "raw", "quality": 90},
        {"storage": "keep", "size": 10},
        {"quality": 0},
        {"quality": 101},
        {"size": 0},
        {"threads": 0},
        {"shard_mb": 0},
        {"shard_mb": float("inf")},
        {"size": 2.5},
        {"on_error": "ignore"},
    ],
    ids=str,
)
def test_invalid_settings_are_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        pack(items(2), tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("settings", [{"threads": 0}, {"shard_mb": 0}], ids=str)
def test_only_the_wrong_setting_is_named(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=rf"^{next(iter(settings))}=0 must be a number above 0$"):
        pack(items(2), tmp_path / "out", **settings)


def test_arrays_cannot_be_kept(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file to keep"):
        pack([photo(4, 4)], tmp_path / "out", storage="keep")
