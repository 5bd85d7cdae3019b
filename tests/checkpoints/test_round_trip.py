"""What is written is read again: every type, shape and value; what no checkpoint can hold is refused by name."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from abreast.checkpoints.dtypes import stored_type
from abreast.checkpoints.folder import FolderLock, checkpoint_names, newest_good, prune
from abreast.checkpoints.read import read_checkpoint
from abreast.checkpoints.snapshot import Snapshot
from abreast.checkpoints.write import (
    abandon_checkpoint,
    begin_checkpoint,
    commit_checkpoint,
    part_of,
    write_checkpoint,
    write_tensors,
)
from abreast.errors import CheckpointError
from tests.checkpoints.samples import MACHINE_LEARNING, PLAIN, VALUES, equal, every_type, running_job, same_bits, small
from tests.harness.client import ROOT


def test_the_library_safetensors_reads_the_same_tensors(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    tensors = every_type() | dict(small().tensors)
    path = write_checkpoint(tmp_path, "a", Snapshot(tensors, {}))
    found = dict(safetensors.deserialize((path / "tensors-00000-of-00001.safetensors").read_bytes()))
    assert {*found} == {*tensors}
    for name, array in tensors.items():
        kind = stored_type(array.dtype.name)
        assert found[name]["dtype"] == kind.in_safetensors and tuple(found[name]["shape"]) == array.shape
        assert bytes(found[name]["data"]) == array.astype(kind.stored).tobytes()


def test_every_type_comes_back(tmp_path: Path) -> None:
    snapshot = Snapshot(every_type(), {})
    assert equal(read_checkpoint(write_checkpoint(tmp_path, "a", snapshot)), snapshot)
    assert len(snapshot.tensors) == len(PLAIN) + len(MACHINE_LEARNING) == 29


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (0, 5), (2, 3, 4), (1,) * 30])
def test_every_shape_comes_back(tmp_path: Path, shape: tuple[int, ...]) -> None:
    tensors = {dtype: np.ones(shape, dtype) for dtype in ("float32", "bool")} | {
        "b": np.ones(shape, ml_dtypes.bfloat16)
    }
    assert equal(read_checkpoint(write_checkpoint(tmp_path, "a", Snapshot(tensors, {}))), Snapshot(tensors, {}))


def test_arrays_that_lie_otherwise_in_memory_come_back_plain(tmp_path: Path) -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    tensors = {"turned": whole.T, "every second": whole[::2, ::-2], "big": whole.astype(">f4"), "one": whole[1, 2]}
    read_only = np.broadcast_to(np.float32(3), (2, 2))
    found = read_checkpoint(write_checkpoint(tmp_path, "a", Snapshot(tensors | {"read only": read_only}, {}))).tensors
    for name, array in (tensors | {"read only": read_only}).items():
        assert same_bits(found[name], np.array(array, np.float32, order="C"))
        assert found[name].flags.c_contiguous and found[name].flags.writeable


def test_values_come_back_with_their_types(tmp_path: Path) -> None:
    snapshot = Snapshot({}, VALUES)
    assert equal(read_checkpoint(write_checkpoint(tmp_path, "a", snapshot)), snapshot)


def test_the_manifest_is_strict_json(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, "a", Snapshot(every_type(), VALUES))
    found = json.loads((path / "manifest.json").read_text(), parse_constant=pytest.fail)
    assert found["values"]["history"]["loss"][1:4] == [{"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}]
    assert found["values"]["generator"][1:3] == [2**53 - 1, {"$int": hex(2**53)}]


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"a": {"b": [1, {2}]}}, r"values\['a'\]\['b'\]\[1\]: its type is set"),
        ({"a": np.float32(1)}, r"values\['a'\]: its type is float32"),
        ({"a": {1: 2}}, r"values\['a'\]: its key 1 is no text"),
        ({"a": b"bytes"}, "its type is bytes"),
    ],
)
def test_what_is_no_plain_value_is_refused_by_its_place(tmp_path: Path, values: dict[str, Any], where: str) -> None:
    with pytest.raises(CheckpointError, match=where):
        write_checkpoint(tmp_path, "a", Snapshot({}, values))
    assert checkpoint_names(tmp_path) == [] and os.listdir(tmp_path) == [".lock"]


def test_values_that_contain_themselves_are_refused(tmp_path: Path) -> None:
    values: dict[str, Any] = {}
    values["again"] = values
    with pytest.raises(CheckpointError, match="nested more than 100 levels deep"):
        write_checkpoint(tmp_path, "a", Snapshot({}, values))


@pytest.mark.parametrize("dtype", ["U3", "O", "M8[s]", "complex128", "S2", "i4,f4", "float128"])
def test_a_type_that_no_checkpoint_has_is_refused_by_name(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(CheckpointError, match="cannot save the tensor 'odd': a checkpoint has no type"):
        write_checkpoint(tmp_path, "a", Snapshot({"fine": np.zeros(2), "odd": np.zeros(2, dtype)}, {}))
    assert os.listdir(tmp_path) == [".lock"]


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "a\n", "a" * 151, "é"])
def test_names_that_could_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match="cannot have the name"):
        write_checkpoint(tmp_path, name, small())


def test_checkpoints_are_listed_oldest_first(tmp_path: Path) -> None:
    for name in ("0000-000001-000000010", "0000-000000-000000009", "0001-000000-000000001"):
        write_checkpoint(tmp_path / "new" / "folder", name, small())
    found = ["0000-000000-000000009", "0000-000001-000000010", "0001-000000-000000001"]
    assert checkpoint_names(tmp_path / "new" / "folder") == found
    assert checkpoint_names(tmp_path / "missing") == []


def test_other_things_in_the_folder_are_no_checkpoints(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "a", small())
    (tmp_path / "logs").mkdir()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert checkpoint_names(tmp_path) == ["a"]


def test_a_checkpoint_is_never_overwritten(tmp_path: Path) -> None:
    paths = [write_checkpoint(tmp_path, "0001", small(step)) for step in (1, 2, 3)]
    write_checkpoint(tmp_path, "0002", small(4))
    assert [path.name for path in paths] == ["0001", "0001.001", "0001.002"]
    assert checkpoint_names(tmp_path) == ["0001", "0001.001", "0001.002", "0002"]
    assert equal(read_checkpoint(paths[1]), small(2))


def test_the_newest_good_one_is_taken_and_bad_ones_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert newest_good(tmp_path) is None
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, f"000{step}", small(step))
    (tmp_path / "0003" / "manifest.json").unlink()
    found = newest_good(tmp_path)
    assert found is not None
    assert found[0] == "0002" and equal(found[1], small(2))
    assert "abreast: the checkpoint 0003 cannot be read, the one before it is tried: " in capsys.readouterr().err


def test_where_all_are_bad_nothing_begins_anew_silently(tmp_path: Path) -> None:
    for step in (1, 2):
        (write_checkpoint(tmp_path, f"000{step}", small(step)) / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=r"none of the 2 checkpoints in .* can be read"):
        newest_good(tmp_path)


def test_the_oldest_one_has_no_other_to_try(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(tmp_path, "other", small(1))
    (write_checkpoint(tmp_path, "mine", small(1)) / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=r"the 1 checkpoint in .* cannot be read\nhint: restore it from a copy"):
        newest_good(tmp_path, "mine")
    err = capsys.readouterr().err
    assert "abreast: the checkpoint mine cannot be read, and there is none before it: " in err and "tried" not in err


def test_prune_keeps_the_newest(tmp_path: Path) -> None:
    for step in range(5):
        write_checkpoint(tmp_path, f"000{step}", small(step))
    assert prune(tmp_path, 2) == ["0000", "0001", "0002"]
    assert checkpoint_names(tmp_path) == ["0003", "0004"]
    assert sorted(os.listdir(tmp_path)) == [".lock", "0003", "0004"]
    with pytest.raises(CheckpointError, match="cannot keep 0 checkpoints"):
        prune(tmp_path, 0)


def test_packed_images_beside_checkpoints_are_none_of_them(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("manifest.json", "shard-00000"):
        (tmp_path / "images" / name).write_text("{}")
    assert checkpoint_names(tmp_path) == []


def test_prune_never_removes_the_newest_good_one(tmp_path: Path) -> None:
    for step in range(5):
        write_checkpoint(tmp_path, f"000{step}", small(step))
    for step in (3, 4):
        (tmp_path / f"000{step}" / "manifest.json").unlink()
    assert prune(tmp_path, 1) == ["0000", "0001", "0003"]
    assert checkpoint_names(tmp_path) == ["0002", "0004"]


def write_part(part: Path, index: int, pipe: Any) -> None:
    tensors = {f"{index}/{name}": array for name, array in small(index).tensors.items()}
    pipe.send(write_tensors(part, tensors, index, 2))


def test_two_processes_write_one_checkpoint(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with FolderLock(tmp_path):
        part = begin_checkpoint(tmp_path, "a", 1000)
        assert part == part_of(tmp_path, "a")
        pipes = [context.Pipe() for _ in range(2)]
        processes = [context.Process(target=write_part, args=(part, i, pipes[i][1])) for i in range(2)]
        for process in processes:
            process.start()
        written = [pipe[0].recv() for pipe in pipes]
        for process in processes:
            process.join(60)
        assert checkpoint_names(tmp_path) == []
        order = [f"{index}/{name}" for name in small().tensors for index in (1, 0)]
        path = commit_checkpoint(part, written, {"epoch": math.inf}, order)
    assert sorted(os.listdir(path)) == [
        "manifest.json",
        "tensors-00000-of-00002.safetensors",
        "tensors-00001-of-00002.safetensors",
    ]
    found = read_checkpoint(path)
    assert list(found.tensors) == order and found.values == {"epoch": math.inf}
    for name in order:
        assert same_bits(found.tensors[name], small(int(name[0])).tensors[name[2:]])


def test_parts_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    part = begin_checkpoint(tmp_path, "a", 1000)
    one = write_tensors(part, {"x": np.zeros(2)}, 0, 2)
    other = write_tensors(part, {"x": np.zeros(2)}, 1, 2)
    for written, why in (([one], "its files are"), ([one, other], "the same name"), ([other, one], "its files are")):
        with pytest.raises(CheckpointError, match=f"the parts of a checkpoint do not fit together: .*{why}"):
            commit_checkpoint(part, written, {})
    abandon_checkpoint(part)
    assert os.listdir(tmp_path) == []


def test_a_part_that_is_on_another_file_system_is_noticed(tmp_path: Path) -> None:
    part = begin_checkpoint(tmp_path, "a", 1000)
    written = write_tensors(part, {"x": np.zeros(2)})
    (part / "tensors-00000-of-00001.safetensors").unlink()
    with pytest.raises(CheckpointError, match="No such file"):
        commit_checkpoint(part, [written], {})


def test_the_folder_of_a_running_job_is_refused(tmp_path: Path) -> None:
    with running_job(tmp_path) as pid:
        holder = f"in use by another job: process {pid} on host {os.uname().nodename}"
        with pytest.raises(CheckpointError, match=holder):
            write_checkpoint(tmp_path, "a", small())
        with pytest.raises(CheckpointError, match=holder):
            prune(tmp_path, 1)
    write_checkpoint(tmp_path, "a", small())


def test_a_file_system_without_locks_is_used_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    for name in ("a", "b"):
        write_checkpoint(tmp_path, name, small())
    said = f"abreast: {tmp_path} cannot be locked (No locks available): take care that one job at a time uses it\n"
    assert capsys.readouterr().err == said


def test_a_job_may_hold_its_folder_more_than_once(tmp_path: Path) -> None:
    with FolderLock(tmp_path), FolderLock(tmp_path):
        write_checkpoint(tmp_path, "a", small())
    assert (tmp_path / ".lock").read_text() == ""


def test_a_forked_process_that_outlives_its_job_does_not_hold_the_folder(tmp_path: Path) -> None:
    script = (
        "import os, sys, time; from abreast.checkpoints.folder import FolderLock\n"
        "begun, end = os.pipe()\n"
        "with FolderLock(sys.argv[1]):\n"
        "    if not os.fork(): os.write(end, b'%d' % os.getpid()); time.sleep(60); os._exit(0)\n"
        "    print(int(os.read(begun, 20)), flush=True); os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": "src"})
    assert done.stdout is not None
    child = int(done.stdout.readline())
    try:
        assert done.wait(60) == -9
        write_checkpoint(tmp_path, "a", small())
    finally:
        os.kill(child, 9)
        done.stdout.close()
