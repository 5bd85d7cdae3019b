"""Samples by number, from many threads and processes, until they are closed."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from abreast.errors import DataError
from abreast.records import Box, Records, decode, decode_crop, pack
from tests.records.pieces import contents, file_of, image_of, photo, small_pack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_pack(tmp_path / "out", 20)
    return tmp_path / "out"


def digest(folder: Path) -> list[tuple[str, int, str]]:
    with Records(folder) as records:
        return [(sample.key, int(decode(sample).sum()), sample.columns["text"]) for sample in records]


def test_samples_are_found_by_their_numbers(folder: Path) -> None:
    with Records(folder) as records:
        assert len(records) == 20
        assert [records[i].number for i in (0, 7, 19, -1, -20)] == [0, 7, 19, 19, 0]
        assert [records[i].columns["label"] for i in range(20)] == [i % 3 for i in range(20)]
        assert records.column("label").tolist() == [i % 3 for i in range(20)]
        for i in (20, -21):
            with pytest.raises(IndexError):
                records[i]
        for name in ("text", "nothing"):
            with pytest.raises(DataError, match="columns of numbers of one shape: label"):
                records.column(name)


def test_a_sample_without_its_columns_is_the_same_otherwise(folder: Path) -> None:
    with Records(folder) as records:
        for number in range(20):
            whole, bare = records[number], records.sample(number, with_columns=False)
            assert bare.columns == {} and bare.restarts.tolist() == whole.restarts.tolist()
            assert replace(bare, columns={}, restarts=whole.restarts) == replace(whole, columns={})


def test_data_that_is_read_is_read_only(folder: Path) -> None:
    with Records(folder) as records:
        assert records[0].data.readonly
        for array in (decode(records[0]), records[2].columns["boxes"]):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_threads_read_the_same(folder: Path) -> None:
    expected = digest(folder)
    with Records(folder) as records, ThreadPoolExecutor(8) as pool:
        numbers = np.random.Generator(np.random.PCG64(0)).integers(0, 20, 2000).tolist()
        found = list(pool.map(lambda i: (records[i].key, int(decode(records[i]).sum())), numbers))
    assert found == [expected[i][:2] for i in numbers]


def read_in_child(records: Records) -> list[tuple[str, int]]:
    return [(sample.key, int(decode(sample).sum())) for sample in records]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_processes_read_the_same(folder: Path, method: str) -> None:
    expected = [row[:2] for row in digest(folder)]
    with Records(folder) as records:
        assert records[0].number == 0  # a shard is open
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(read_in_child, [records, records]) == [expected, expected]
        assert read_in_child(records) == expected


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_busy_reader_does_not_wait(folder: Path) -> None:
    """It is forked while another thread would hold the lock."""
    with Records(folder) as records:
        with records._lock:
            child = os.fork()
            if child == 0:
                os._exit(0 if records[0].number == 0 else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_pickle_is_the_path_only(folder: Path) -> None:
    with Records(folder) as records:
        assert records[3].key == "group/003"
        data = pickle.dumps(records)
        assert len(data) < 200
        with pickle.loads(data) as again:
            assert again[3].key == "group/003"


def open_files() -> list[str]:
    return [
        os.readlink(f"/proc/self/fd/{name}")
        for name in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{name}")
    ]


def test_closing_gives_the_files_back(folder: Path) -> None:
    records = Records(folder)
    sample = records[0]
    assert str(folder) in Path("/proc/self/maps").read_text()
    records.close()
    records.close()
    assert len(bytes(sample.data)) == sample.data.nbytes  # what somebody holds stays
    with pytest.raises(DataError, match="was closed"):
        records[0]
    del sample
    gc.collect()
    assert not any(str(folder) in name for name in open_files())
    assert str(folder) not in Path("/proc/self/maps").read_text()


def test_crops_of_every_storage_are_those_of_the_full_decode(tmp_path: Path) -> None:
    pixels, box = photo(60, 90), Box(17, 11, 40, 30)
    for storage in ("jpeg", "png", "raw"):
        pack([pixels, photo(60, 90, channels=1)], tmp_path / storage, storage=storage)
        with Records(tmp_path / storage) as records:
            for sample in records:
                np.testing.assert_array_equal(decode_crop(sample, box), decode(sample)[11:41, 17:57])


def test_crops_of_kept_files_are_those_of_the_full_decode(tmp_path: Path) -> None:
    """Turned, without restarts, progressive, gray, CMYK: only the first can be cut."""
    pixels = photo(60, 90)
    exif = image_of(pixels).getexif()
    exif[0x0112] = 6
    files = [
        file_of(pixels, "JPEG", restart_marker_blocks=2),
        file_of(pixels, "JPEG", restart_marker_blocks=2, exif=exif),
        file_of(pixels, "JPEG"),
        file_of(pixels, "JPEG", progressive=True),
        file_of(photo(60, 90, channels=1), "JPEG"),
        file_of(image_of(pixels).convert("CMYK"), "JPEG", restart_marker_blocks=2),
    ]
    pack(files, tmp_path / "out", storage="keep")
    with Records(tmp_path / "out") as records:
        assert [sample.plain for sample in records] == [True, False, True, True, True, False]
        for sample in records:
            full = decode(sample)
            assert full.shape == ((90, 60, 3) if sample.orientation == 6 else (60, 90, sample.channels))
            box = Box(5, 20, 41, 33)
            np.testing.assert_array_equal(decode_crop(sample, box), full[20:53, 5:46])
            with pytest.raises(DataError, match="is outside of an image"):
                decode_crop(sample, Box(50, 0, 41, 10))


def test_a_folder_without_a_manifest_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(DataError, match="holds no packed images"):
            Records(path)


def test_reading_changes_no_file(folder: Path) -> None:
    before = contents(folder)
    digest(folder)
    assert contents(folder) == before
