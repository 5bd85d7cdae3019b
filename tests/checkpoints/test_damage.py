"""No damage of a checkpoint is silent, each is named, and a second reader, written from the page alone, agrees."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import re
import resource
import shutil
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from abreast.checkpoints import read as reading
from abreast.checkpoints.folder import checkpoint_names
from abreast.checkpoints.read import read_checkpoint
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.write import begin_checkpoint, commit_checkpoint, write_checkpoint, write_tensors
from abreast.errors import CheckpointError
from tests.checkpoints import second_reader
from tests.checkpoints.samples import VALUES, equal, every_type, small
from tests.harness.client import ROOT

TENSORS = "tensors-00000-of-00001.safetensors"


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "ckpt", "0001", small())


def outcome(path: Path) -> str:
    """`same` as `small()`, the message of the error, or `silently wrong`."""
    try:
        found = read_checkpoint(path)
    except CheckpointError as error:
        return error.message
    return "same" if equal(found, small()) else "silently wrong"


def flips(path: Path) -> Iterator[tuple[int, int]]:
    """Flip each bit of a file in turn: its byte and bit."""
    data = path.read_bytes()
    with path.open("r+b", buffering=0) as file:
        for offset in range(len(data)):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([data[offset] ^ 1 << bit]), offset)
                yield offset, bit
            os.pwrite(file.fileno(), data[offset : offset + 1], offset)


def tensor_at(path: Path, offset: int) -> str | None:
    """The tensor that a byte of the file belongs to, according to the manifest."""
    for tensor in json.loads((path / "manifest.json").read_bytes())["tensors"]:
        if tensor["offset"] <= offset < tensor["offset"] + tensor["bytes"]:
            return str(tensor["name"])
    return None


def in_words(path: Path, offset: int) -> str:
    """The end of the message for a file that ends at a byte."""
    for tensor in json.loads((path / "manifest.json").read_bytes())["tensors"]:
        if tensor["offset"] <= offset < tensor["offset"] + tensor["bytes"]:
            return f"in the tensor {tensor['name']!r}, which begins at byte {tensor['offset']}"
    return "in its header"


def test_every_flipped_bit_of_the_tensors_is_named(whole: Path) -> None:
    file, count = whole / TENSORS, 0
    names = [tensor_at(whole, offset) for offset in range(file.stat().st_size)]
    for offset, _ in flips(file):
        message = outcome(whole)
        assert message.startswith(f"{file} is damaged: ")
        assert (f"the tensor {names[offset]!r}, bytes " if names[offset] else "its header, bytes 0 to ") in message
        count += 1
    assert count == 8 * file.stat().st_size > 3000
    assert outcome(whole) == "same"


def test_every_flipped_bit_of_the_manifest_is_named(whole: Path) -> None:
    file, count = whole / "manifest.json", 0
    for _ in flips(file):
        assert outcome(whole).startswith(f"{file} is damaged: its {file.stat().st_size} bytes do not fit their SHA-256")
        count += 1
    assert count == 8 * file.stat().st_size > 10_000
    assert outcome(whole) == "same"


def test_the_second_reader_refuses_every_flipped_byte(whole: Path) -> None:
    for file in (whole / TENSORS, whole / "manifest.json"):
        for _, bit in flips(file):
            if bit == 3:
                assert not accepted(whole)
    assert accepted(whole)


def test_without_checksums_flips_are_silent(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: each flip of a tensor's bit, and no other, goes through."""

    class Equal(str):
        def __ne__(self, other: object) -> bool:
            return False

    class NoHash:
        def update(self, data: memoryview) -> None: ...
        def hexdigest(self) -> str:
            return Equal()

    monkeypatch.setattr(reading, "hashlib", SimpleNamespace(sha256=NoHash))
    found = Counter(outcome(whole) for _ in flips(whole / TENSORS))
    num_bytes = sum(array.nbytes for array in small().tensors.values())
    assert found["silently wrong"] == 8 * num_bytes - 7 == 289  # seven bits of the flag make it no bool


def test_every_truncation_is_named(whole: Path) -> None:
    count = 0
    names = [in_words(whole, offset) for offset in range((whole / TENSORS).stat().st_size)]
    for file in (whole / TENSORS, whole / "manifest.json"):
        data = file.read_bytes()
        for length in reversed(range(len(data))):
            os.truncate(file, length)
            message = outcome(whole)
            assert message.startswith(f"{file} is damaged: ")
            if file.name == TENSORS:
                assert message.endswith(names[length])
            assert length % 5 or not accepted(whole)
            count += 1
        file.write_bytes(data)
    assert count > 2000
    assert outcome(whole) == "same" and accepted(whole)


@pytest.mark.parametrize("more", [b"\0", b"\n", b" ", b"}", bytes(512)])
@pytest.mark.parametrize("name", [TENSORS, "manifest.json"])
def test_appended_bytes_are_named(whole: Path, name: str, more: bytes) -> None:
    with (whole / name).open("ab") as file:
        file.write(more)
    assert outcome(whole).startswith(f"{whole / name} is damaged: ")
    assert not accepted(whole)


@pytest.mark.parametrize("name", [TENSORS, "manifest.json"])
def test_missing_files_are_named_and_the_checkpoint_is_still_listed(whole: Path, name: str) -> None:
    (whole / name).unlink()
    assert outcome(whole) == f"{whole / name} is missing"
    assert not accepted(whole)
    assert checkpoint_names(whole.parent) == ["0001"]


@pytest.mark.parametrize("name", [TENSORS, "manifest.json"])
def test_files_of_another_checkpoint_are_noticed(whole: Path, name: str) -> None:
    shutil.copy(write_checkpoint(whole.parent, "0002", small(2)) / name, whole / name)
    assert "is damaged: " in outcome(whole)
    assert not accepted(whole)


@pytest.mark.parametrize("name", [TENSORS, "manifest.json"])
def test_links_pipes_and_folders_are_refused(whole: Path, name: str, tmp_path: Path) -> None:
    shutil.copy(whole / name, tmp_path / "elsewhere")
    for make in (
        lambda path: path.symlink_to(tmp_path / "elsewhere"),
        os.mkfifo,
        Path.mkdir,
    ):
        (whole / name).unlink() if not (whole / name).is_dir() else (whole / name).rmdir()
        make(whole / name)
        assert outcome(whole).startswith(f"cannot read {whole / name}: ")
        if not (whole / name).is_fifo():
            assert not accepted(whole)
    link = tmp_path / "link"
    link.symlink_to(whole)
    assert outcome(link) == f"{link} is not a checkpoint: it is not a folder"


def test_a_checkpoint_of_a_newer_abreast_is_named(whole: Path) -> None:
    reseal(whole, lambda manifest: manifest | {"version": 2, "compression": "zstd"})
    with pytest.raises(
        CheckpointError, match=r"has version 2 of the format, and this abreast reads 1\nhint: use a newer"
    ):
        read_checkpoint(whole)
    assert not accepted(whole)


def test_sizes_are_checked_before_memory_is_allocated(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "empty", lambda *_: pytest.fail("allocated"))

    def huge(manifest: Any) -> Any:
        manifest["tensors"][0] |= {"shape": [2**40], "bytes": 2**42}
        manifest["files"][0]["bytes"] += 2**42
        return manifest

    reseal(whole, huge)
    assert "ends at byte" in outcome(whole) or "ends at" in outcome(whole)


def with_values(text: str) -> Callable[[Path], None]:
    """Put a text in place of the values of a manifest, and seal it again."""

    def change(path: Path) -> None:
        reseal(path, lambda manifest: manifest | {"values": "VALUES"})
        data = (path / "manifest.json").read_bytes()
        body = data[: -len(seal_of(b""))].replace(b'"VALUES"', text.encode())
        (path / "manifest.json").write_bytes(body + seal_of(body))

    return change


HOSTILE: dict[str, Callable[[Path], None]] = {
    "nested too deeply": with_values('{"a":' * 200_000 + "1" + "}" * 200_000),
    "lists nested too deeply": with_values('{"a":' + "[" * 200_000 + "]" * 200_000 + "}"),
    "a number of a million digits": with_values('{"a":' + "9" * 1_000_000 + "}"),
    "an integer that is no text": with_values('{"a":{"$int": 5}}'),
    "an integer with a sign inside": with_values('{"a":{"$int": "0x-5"}}'),
    "NaN": with_values('{"a": NaN}'),
    "a key twice": with_values('{"a": 1, "a": 2}'),
    "too many axes": lambda path: reseal(path, lambda manifest: reshaped(manifest, [1] * 100 + [2, 3])),
    "an axis that is too long": lambda path: reseal(path, lambda manifest: reshaped(manifest, [0, 2**62, 2**62], 3)),
    "a manifest that is too large": lambda path: os.truncate(path / "manifest.json", 2**28 + 1),
    "a file that is too large": lambda path: os.truncate(path / TENSORS, 2**40),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_checkpoints_are_refused_in_little_memory_and_time(whole: Path, name: str) -> None:
    HOSTILE[name](whole)
    began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert not agree(whole)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began < 400_000  # KiB


def test_a_checkpoint_of_every_version_is_read(tmp_path: Path) -> None:
    """`golden/` holds what earlier versions wrote, and is never written again."""
    paths = sorted((Path(__file__).parent / "golden").iterdir())
    assert [path.name for path in paths] == ["version-1"]
    for path in paths:
        assert equal(read_checkpoint(path), Snapshot(every_type() | dict(small().tensors), VALUES))
        assert accepted(path)


def test_the_present_writer_writes_the_same_bytes(tmp_path: Path) -> None:
    old = Path(__file__).parent / "golden" / "version-1"
    new = write_checkpoint(tmp_path, "a", Snapshot(every_type() | dict(small().tensors), VALUES))
    assert (new / TENSORS).read_bytes() == (old / TENSORS).read_bytes()
    written = {"written_at", "written_by", "sha256"}
    one, other = (json.loads((path / "manifest.json").read_bytes()) for path in (old, new))
    assert {key: one[key] for key in one if key not in written} == {
        key: other[key] for key in one if key not in written
    }


def test_both_readers_agree_on_what_is_valid(tmp_path: Path) -> None:
    snapshot = Snapshot(every_type() | dict(small().tensors), VALUES)
    path = write_checkpoint(tmp_path, "a", snapshot)
    assert equal(Snapshot(*second_reader.read(path)), snapshot)
    assert equal(read_checkpoint(path), snapshot)


@pytest.mark.in_turn
def test_both_readers_agree_on_manifests_that_are_sealed_and_wrong(tmp_path: Path) -> None:
    path = two_files(tmp_path)
    data = (path / "manifest.json").read_bytes()
    found: Counter[bool] = Counter()
    for mutated in mutations(json.loads(data)):
        (path / "manifest.json").write_bytes(sealed(mutated))
        found[agree(path)] += 1
    (path / "manifest.json").write_bytes(data)
    assert accepted(path)
    assert found[False] > 900 and found[True] > 30  # other times, versions and values are no damage


@pytest.mark.in_turn
def test_both_readers_agree_on_headers_that_are_bound_and_wrong(whole: Path) -> None:
    data = (whole / TENSORS).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    original = json.loads((whole / "manifest.json").read_bytes())
    found: Counter[bool] = Counter()
    texts = [json.dumps(header).encode() for header in mutations(json.loads(data[8 : 8 + length]))]
    text = data[8 : 8 + length].rstrip()
    texts += [b" " + text, text + b"\n", text + b"x", text + text, b"[]", b"", text.replace(b"{", b'{"x":NaN,', 1)]
    texts += [text[:-1] + b"," + text[1:], b"\xff" + text, b"\xef\xbb\xbf" + text]
    for text in texts:
        (whole / TENSORS).write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
        (whole / "manifest.json").write_bytes(sealed(bound_again(original, len(text) - length, whole / TENSORS)))
        found[agree(whole)] += 1
    assert found[False] > 200 and found[True] >= 3  # another `__metadata__`, or none, is no damage


def test_a_header_of_another_length_is_refused(whole: Path) -> None:
    data = (whole / TENSORS).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    for other in (length - 1, length + 1, 0, 2**63):
        (whole / TENSORS).write_bytes(struct.pack("<Q", other) + data[8:])
        reseal(whole, lambda manifest: bound_again(manifest, 0, whole / TENSORS))
        assert not agree(whole)


def test_an_empty_tensor_that_is_there_twice_is_refused(whole: Path) -> None:
    def twice(manifest: Any) -> Any:
        manifest["tensors"] += [each for each in manifest["tensors"] if each["name"] == "empty"]
        return manifest

    reseal(whole, twice)
    assert not agree(whole)


def test_the_page_shows_the_size_of_the_second_reader() -> None:
    assert len(Path(second_reader.__file__).read_text().splitlines()) <= 100


def test_reading_runs_no_code_and_opens_nothing_else(whole: Path) -> None:
    script = (
        "import sys, numpy, ml_dtypes; from pathlib import Path; from abreast.checkpoints.read import read_checkpoint\n"
        "path, seen = Path(sys.argv[1]), []\n"
        "read_checkpoint(path)\n"
        "sys.addaudithook(lambda event, given: seen.append((event, given)))\n"
        "read_checkpoint(path)\n"
        "found = {(event, str(given[0])) for event, given in seen if event not in ('object.__getattr__',)}\n"
        "print(sorted(found))"
    )
    import subprocess
    import sys

    command = [sys.executable, "-c", script, str(whole)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": "src"})
    found = eval(done.stdout, {}, {})
    assert {each for each in found if each[0] != "open"} == set(), done.stderr
    assert {place for _, place in found} == {str(whole / TENSORS), str(whole / "manifest.json")}


def sealed(content: Any) -> bytes:
    """The bytes of a manifest with this content, whose seal is right."""
    content = (
        {key: value for key, value in content.items() if key != "sha256"} if isinstance(content, dict) else content
    )
    body = json.dumps(content, indent=1).encode().removesuffix(b"\n}")
    return body + seal_of(body)


def seal_of(body: bytes) -> bytes:
    return b',\n "sha256": "%s"\n}\n' % hashlib.sha256(body).hexdigest().encode()


def reshaped(manifest: Any, shape: list[int], number: int = 0) -> Any:
    manifest["tensors"][number]["shape"] = shape
    return manifest


def reseal(path: Path, change: Callable[[Any], Any]) -> None:
    manifest = json.loads((path / "manifest.json").read_bytes())
    (path / "manifest.json").write_bytes(sealed(change(manifest)))


def bound_again(manifest: Any, moved: int, file: Path) -> Any:
    """The manifest for a file whose header has another length."""
    manifest = copy.deepcopy(manifest)
    data = file.read_bytes()
    manifest["files"][0] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    for tensor in manifest["tensors"]:
        tensor["offset"] += moved
    return manifest


def two_files(folder: Path) -> Path:
    part = begin_checkpoint(folder, "a", 1000)
    tensors = dict(small().tensors) | {"int4": every_type()["int4"]}
    parts = [dict(list(tensors.items())[index::2]) for index in range(2)]
    written = [write_tensors(part, each, index, 2) for index, each in enumerate(parts)]
    return commit_checkpoint(part, written, {"a": [1, math.nan, 2**60], "b": {"$": None}}, list(tensors))


_OTHERS: list[Any] = [None, True, False, 0, 1, -1, 1.0, 2**63, "", "x", "../x", "int8", [], {}, [1], {"a": 1}]


def mutations(content: Any) -> Iterator[Any]:
    """The content with one part replaced, removed, repeated or added."""
    for path in places(content):
        for other in _OTHERS:
            yield changed(content, path, constant(other))
        if path:
            yield changed(content, path, None)
    for path in places(content):
        part = at(content, path)
        if isinstance(part, list) and part:
            yield changed(content, path, lambda part: [*part, part[-1]])
            yield changed(content, path, lambda part: part[::-1])
        if isinstance(part, dict):
            yield changed(content, path, lambda part: part | {"more": 1})


def constant(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def at(content: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        content = content[key]
    return content


def changed(content: Any, path: tuple[Any, ...], change: Callable[[Any], Any] | None) -> Any:
    if not path:
        assert change is not None
        return change(content)
    content = copy.deepcopy(content)
    owner = at(content, path[:-1])
    if change is None:
        del owner[path[-1]]
    else:
        owner[path[-1]] = change(owner[path[-1]])
    return content


def accepted(path: Path) -> bool:
    """Whether the second reader accepts a checkpoint."""
    try:
        second_reader.read(path)
    except Exception:
        return False
    return True


def agree(path: Path) -> bool:
    """Whether both readers accept a checkpoint. They agree, and what they read is the same."""
    message = ""
    try:
        found = read_checkpoint(path)
    except CheckpointError as error:
        message = error.message
    if not message:
        assert equal(found, Snapshot(*second_reader.read(path)))
        return True
    assert re.search(r"manifest\.json|\.safetensors", message)
    assert not accepted(path), message
    return False
