"""Every byte of a small data set is changed in turn, every file cut off at every length, and files are mixed up."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.errors import DataError
from abreast.records import Records, pack, verify
from abreast.records.format import index_file, manifest
from abreast.records.format.columns import ColumnType, StoredColumn
from abreast.records.format.manifest import bound, unbound
from abreast.records.reading import reader
from tests.records.pieces import contents, photo

Read = list[tuple[str, bytes, dict[str, Any]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two shards with a tiny image each."""
    samples = [{"image": photo(5, 6, seed=i), "key": f"k{i}", "label": i, "text": "ä"} for i in range(2)]
    pack(samples, tmp_path / "out", storage="raw", shard_mb=0.001)
    assert len(contents(tmp_path / "out")) == 5
    return tmp_path / "out"


def read(folder: Path) -> Read:
    with Records(folder) as records:
        return [(sample.key, bytes(sample.data), dict(sample.columns)) for sample in records]


def flips(folder: Path, bits: tuple[int, ...], suffix: str = "", step: int = 1) -> Iterator[tuple[Path, int]]:
    """Each `step`-th byte of each file, while one of its bits is flipped."""
    for path in sorted(path for path in folder.iterdir() if path.name.endswith(suffix)):
        with path.open("r+b", buffering=0) as file:
            for place in range(0, path.stat().st_size, step):
                right = os.pread(file.fileno(), 1, place)
                for bit in bits:
                    os.pwrite(file.fileno(), bytes([right[0] ^ 1 << bit]), place)
                    yield path, place
                os.pwrite(file.fileno(), right, place)


def is_read_wrongly(folder: Path, path: Path, right: Read) -> bool | None:
    """None when the damage is refused and its file named."""
    try:
        return read(folder) != right
    except DataError as error:
        if str(path) not in error.message or not error.hint:
            raise
        return None


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "bits", [(6,), pytest.param(tuple(range(8)), marks=pytest.mark.full)], ids=["a bit", "all bits"]
)
def test_no_changed_byte_is_read_unnoticed(folder: Path, bits: tuple[int, ...]) -> None:
    right = read(folder)
    sizes = {name: len(data) for name, data in contents(folder).items()}
    ours = sum(size for name, size in sizes.items() if not name.endswith(".tar")) + sum(
        len(data) for _, data, _ in right
    )
    found: Counter[bool | None] = Counter()
    silent = []
    for path, place in flips(folder, bits):
        found[outcome := is_read_wrongly(folder, path, right)] += 1
        if outcome:
            silent.append((path.name, place))
        assert outcome is not False or path.suffix == ".tar"  # what other tools read, and we do not
    assert silent == []
    assert (found[None], found[False]) == (ours * len(bits), (sum(sizes.values()) - ours) * len(bits))
    assert read(folder) == right


def test_verifying_finds_every_changed_byte(folder: Path) -> None:
    for path, _ in flips(folder, (0,), step=11):
        assert any(path.name in problem for problem in verify(folder))
    assert verify(folder) == []


@pytest.mark.in_turn
def test_without_checksums_changed_bytes_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: the pixels' checksum is not checked."""
    right = read(folder)
    monkeypatch.setattr(reader, "crc32c", lambda _: _Any())
    tar = "shard-00000.tar"
    silent = sum(is_read_wrongly(folder, path, right) is True for path, _ in flips(folder, (3,), suffix=tar))
    assert silent == len(right[0][1])


class _Any:
    def __ne__(self, _: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def test_damage_to_an_image_is_named_with_file_sample_and_bytes(folder: Path) -> None:
    with Records(folder) as records:
        _, index = list(records.shards())[1]
        begin, size = int(index.samples["offset"][0]), int(index.samples["length"][0])
    tar = folder / "shard-00001.tar"
    data = bytearray(tar.read_bytes())
    data[begin + 150] ^= 1
    tar.write_bytes(data)
    with Records(folder) as records:
        assert records[0].number == 0  # the others are read
        with pytest.raises(DataError) as caught:
            records[1]
    assert caught.value.message == (
        f"{tar} is damaged: sample 1 (k1), bytes {begin} to {begin + size}, has a wrong checksum"
    )
    assert verify(folder) == [f"the SHA-256 of {tar} is not the one in manifest.json", caught.value.message]


@pytest.mark.in_turn
def test_every_shorter_or_longer_file_is_refused(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        for size in range(len(data)):
            with path.open("r+b") as file:
                file.truncate(size)
            with pytest.raises(DataError, match=path.name):
                Records(folder)
            path.write_bytes(data)
        path.write_bytes(data + b"\0")
        with pytest.raises(DataError):
            read(folder)
        path.write_bytes(data)
    assert len(read(folder)) == 2


@pytest.mark.parametrize("name", ["manifest.json", "shard-00000.tar", "shard-00001.index"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        read(folder)
    assert any(name in problem for problem in verify(folder))


def test_files_of_another_data_set_are_refused(folder: Path, tmp_path: Path) -> None:
    """It has the same keys, sizes and columns, and other pixels."""
    samples = [{"image": photo(5, 6, seed=7 + i), "key": f"k{i}", "label": i, "text": "ä"} for i in range(2)]
    pack(samples, tmp_path / "other", storage="raw", shard_mb=0.001)
    for name in contents(folder):
        shutil.copytree(folder, tmp_path / "mixed")
        shutil.copy(tmp_path / "other" / name, tmp_path / "mixed" / name)
        with pytest.raises(DataError):
            read(tmp_path / "mixed")
        assert verify(tmp_path / "mixed")
        shutil.rmtree(tmp_path / "mixed")


def test_shards_in_each_others_place_are_refused(folder: Path) -> None:
    for suffix in ("tar", "index"):
        first, second = folder / f"shard-00000.{suffix}", folder / f"shard-00001.{suffix}"
        first.rename(folder / "x"), second.rename(first), (folder / "x").rename(second)
        with pytest.raises(DataError):
            read(folder)


FORGERIES: dict[str, dict[str, Any]] = {
    "another count": {"num_samples": 3},
    "no count": {"num_samples": "2"},
    "no shards": {"shards": None},
    "a shard elsewhere": {"shards": [{"name": "../../etc/passwd"}]},
    "columns of objects": {"columns": [{"name": "label", "type": "|O", "shape": []}]},
    "another column": {"columns": [{"name": "other", "type": "<i8", "shape": []}]},
    "no settings": {"settings": 3},
    "another version": {"version": 99},
}


@pytest.mark.parametrize("changes", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_manifest_with_a_right_digest_is_refused(folder: Path, changes: dict[str, Any]) -> None:
    path = folder / "manifest.json"
    path.write_bytes(bound(unbound(path.read_bytes(), path) | changes))
    with pytest.raises(DataError):
        read(folder)


@pytest.mark.parametrize("claimed", [50_000_000, 2**62])
def test_verifying_does_not_believe_how_many_samples_a_manifest_claims(folder: Path, claimed: int) -> None:
    path = folder / "manifest.json"
    content = unbound(path.read_bytes(), path)
    content["shards"][0]["num_samples"] = claimed - 1
    content["num_samples"] = claimed
    path.write_bytes(bound(content))
    began = time.monotonic()
    assert verify(folder)[0] == f"{folder / 'shard-00000.index'} does not go with manifest.json"
    assert time.monotonic() - began < 2


def test_a_manifest_that_repeats_a_shard_is_refused_at_once(folder: Path) -> None:
    path = folder / "manifest.json"
    content = unbound(path.read_bytes(), path)
    path.write_bytes(bound(content | {"num_samples": 100_000, "shards": content["shards"][:1] * 100_000}))
    began = time.monotonic()
    assert verify(folder) == [f"{path} does not describe a data set: it lists a shard twice"]
    assert time.monotonic() - began < 10


def test_a_shard_outside_of_the_folder_is_never_opened(folder: Path, tmp_path: Path) -> None:
    path = folder / "manifest.json"
    content = unbound(path.read_bytes(), path)
    shutil.copy(folder / "shard-00000.tar", tmp_path / "shard-00000.tar")
    content["shards"][0]["name"] = "../shard-00000"
    path.write_bytes(bound(content))
    with pytest.raises(DataError, match="is not a name of a shard"):
        Records(folder)


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[" * 100_000, b'{"content": 1, "sha256": "x"}', b"\xff", b"9" * 10_000]
)
def test_a_manifest_of_nonsense_is_refused(folder: Path, text: bytes) -> None:
    (folder / "manifest.json").write_bytes(text)
    with pytest.raises(DataError, match="damaged"):
        Records(folder)


def test_pixels_that_disagree_with_the_index_are_refused_before_they_are_decoded(tmp_path: Path) -> None:
    """An index that was forged with right checksums: its sample claims another size."""
    from abreast.records import Box, decode, decode_crop

    for storage in ("raw", "png", "jpeg"):
        pack([photo(16, 16)], tmp_path / storage, storage=storage)
        with Records(tmp_path / storage) as records:
            sample = replace(records[0], height=4000, width=4000)
        for call in (decode, lambda sample: decode_crop(sample, Box(0, 0, 3000, 3000))):
            with pytest.raises(DataError, match="index says 4000 x 4000"):
                call(sample)
    assert np.asarray(sample.data).size


def forged(folder: Path, column: StoredColumn) -> None:
    """Give the only shard another column, with right digests."""
    path = folder / "shard-00000.index"
    data = index_file.to_bytes(replace(index_file.from_bytes(path.read_bytes(), ""), columns={"c": column}))
    path.write_bytes(data)
    whole = manifest.read(folder)
    shard = replace(whole.shards[0], index_bytes=len(data), index_sha256=hashlib.sha256(data).hexdigest())
    (folder / "manifest.json").write_bytes(manifest.to_bytes(replace(whole, columns=(column.type,), shards=(shard,))))


@pytest.mark.parametrize("shape", [(None,) * 4, (2**31 - 1,) * 4 + (0,)])
def test_a_shape_that_no_array_can_have_is_refused(tmp_path: Path, shape: tuple[int | None, ...]) -> None:
    """A shape without elements fits the bytes of the column, which has none."""
    pack([photo(8, 8)], tmp_path / "out")
    kind = ColumnType("c", "<f4", shape)
    shapes = np.array([[2**32 - 1, 2**32 - 1, 2**32 - 1, 0]], "<u4") if kind.varies else None
    forged(tmp_path / "out", StoredColumn(kind, np.empty(0, "<f4"), shapes))
    with Records(tmp_path / "out") as records:
        for read_column in (lambda: records[0], lambda: records.column("c")):
            with pytest.raises(DataError, match="cannot be read"):
                read_column()
    assert len(verify(tmp_path / "out")) == 1


def test_a_pipe_in_place_of_a_file_is_refused(folder: Path) -> None:
    """A process that opens a pipe waits for a writer."""
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(DataError, match=f"{path} is not a file"):
            read(folder)
        assert f"{path} is not a file" in verify(folder)
        path.unlink()
        path.write_bytes(data)
    read(folder)


_WATCHED = """
import sys
from abreast.records import Records, decode, verify

def read(folder):
    with Records(folder) as records:
        return [decode(sample).sum() for sample in records] + verify(folder)

read(sys.argv[1])  # all that is imported when it is first needed is there now
heard = []
sys.addaudithook(lambda event, arguments: heard.append((event, str(arguments[0]) if arguments else "")))
read(sys.argv[2])
own = eval("1") if "--control" in sys.argv else 1
for event, what in heard:
    print(event, what.partition("\\n")[0][:200])
"""


def events(folder: Path, *arguments: str) -> set[tuple[str, str]]:
    command = [sys.executable, "-c", _WATCHED, str(folder), str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return {(event, what) for event, _, what in (line.partition(" ") for line in done.stdout.splitlines())}


def test_reading_runs_nothing_and_opens_nothing_elsewhere(folder: Path) -> None:
    heard = events(folder)
    opened = {what for event, what in heard if event == "open"}
    assert {Path(path).parent for path in opened} == {folder}
    banned = ("exec", "compile", "import", "pickle.", "marshal.", "code.", "os.", "subprocess.", "socket.", "ctypes.")
    assert [event for event, _ in heard if event.startswith(banned)] == []
    assert "exec" in {event for event, _ in events(folder, "--control")}
