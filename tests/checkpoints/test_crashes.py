"""A save may lose power, find the disk full, or meet another writer at any moment: the checkpoints are old or new, never half."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abreast.checkpoints.folder import checkpoint_names, prune
from abreast.checkpoints.read import read_checkpoint
from abreast.checkpoints.write import write_checkpoint
from abreast.errors import CheckpointError
from tests.checkpoints.crashes import begun, goes_on, one_save, state
from tests.checkpoints.samples import contents, equal, small
from tests.harness.client import ROOT
from tests.harness.crashes import Failing, PowerLoss, Stingy, Watched, power_losses, put


def test_a_power_cut_at_any_call_leaves_old_or_new(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for tree in power_losses(begun(tmp_path / "first"), one_save):
        found[state(put(tmp_path / "cut", tree))] += 1
        assert goes_on(tmp_path / "cut")
    assert set(found) == {"old", "both", "new"}
    assert found.total() > 70


def test_what_a_save_returned_survives_a_power_cut(tmp_path: Path) -> None:
    folder = begun(tmp_path / "first")
    loss = PowerLoss(folder)
    write_checkpoint(folder, "0002", small(2), loss)
    assert {state(put(tmp_path / "cut", tree)) for tree in loss.states()} == {"both"}


@pytest.mark.parametrize("no_op", [("sync",), ("sync_folder",), ("sync", "sync_folder")])
def test_without_syncing_a_power_cut_leaves_halves(tmp_path: Path, no_op: tuple[str, ...]) -> None:
    """The negative control of each kind of sync."""
    trees = power_losses(begun(tmp_path / "first"), one_save, no_op)
    assert any(state(put(tmp_path / "cut", tree)).startswith("half") for tree in trees)


def error_of(do: Callable[..., Any], *arguments: Any) -> CheckpointError | None:
    try:
        do(*arguments)
    except CheckpointError as error:
        return error
    return None


def num_calls(folder: Path) -> int:
    watched = Watched()
    one_save(begun(folder), watched)
    return watched.num_calls


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.in_turn
def test_an_error_of_the_system_is_one_clear_error_wherever_it_comes(tmp_path: Path, number: int) -> None:
    calls: Counter[str] = Counter()
    for at in range(1, num_calls(tmp_path / "counted") + 1):
        folder = begun(tmp_path / str(at))
        files = Failing(at, number, stays=number == errno.ENOSPC)
        before = contents(folder / "0001")
        error = error_of(one_save, folder, files)
        if error is None:
            assert files.failed in ("remove", "remove_folder", "close")  # what dead writers left is removed later
        else:
            writes = error.message.startswith("cannot write a checkpoint to ")
            assert os.strerror(number) in error.message and str(folder) in error.message
            assert "untouched" in str(error.hint)
            assert ("a checkpoint needs" in str(error.hint)) == (writes and number in (errno.ENOSPC, errno.EDQUOT))
        calls[files.failed] += 1
        assert state(folder) in ("old", "both", "new")
        assert "0001" not in checkpoint_names(folder) or contents(folder / "0001") == before
        assert not [each for each in os.listdir(folder) if each.startswith(".0002") and "part" in each]
        assert goes_on(folder)
    assert {"make_new_folder", "create", "write", "sync", "rename", "sync_folder", "remove"} <= {*calls}


def test_no_room_is_noticed_before_anything_is_written(tmp_path: Path) -> None:
    class Full(Watched):
        def free_bytes(self, folder: Path) -> int:
            return 1000

    folder, files = begun(tmp_path), Full()
    needed = sum(array.nbytes for array in small().tensors.values()) + 2**20
    with pytest.raises(CheckpointError, match=f"needs {needed:,} bytes, and the disk has 1,000 free") as caught:
        write_checkpoint(folder, "0002", small(2), files)
    assert "the checkpoints that were there are untouched" in str(caught.value.hint)
    assert sorted(os.listdir(folder)) == [".lock", "0001"] and state(folder) == "old"


def test_a_limit_of_the_system_is_reported_too(tmp_path: Path) -> None:
    """Not a fault that we inject: the kernel refuses to let a file grow."""
    script = (
        "import resource, sys; from pathlib import Path; from tests.checkpoints.crashes import one_save\n"
        "from abreast.errors import CheckpointError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))\n"
        "try: one_save(Path(sys.argv[1]))\nexcept CheckpointError as error: print(error)\n"
    )
    folder = begun(tmp_path)
    command = [sys.executable, "-c", script, str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, env=environment)
    assert "File too large" in done.stdout and "hint: a checkpoint needs " in done.stdout, done.stderr
    assert state(folder) == "old" and goes_on(folder)


def test_short_writes_are_continued(tmp_path: Path) -> None:
    files = Stingy()
    assert equal(read_checkpoint(write_checkpoint(tmp_path, "a", small(), files)), small())
    assert files.num_calls > 40


def test_ctrl_c_leaves_no_half_checkpoint(tmp_path: Path) -> None:
    class Interrupted(Watched):
        def at_call(self, name, do, arguments):  # type: ignore[no-untyped-def]
            if self.num_calls == at:
                raise KeyboardInterrupt
            return do(*arguments)

    for at in range(1, num_calls(tmp_path / "counted") + 1):
        folder = begun(tmp_path / str(at))
        with pytest.raises(KeyboardInterrupt):
            one_save(folder, Interrupted())
        assert state(folder) in ("old", "both", "new")
        assert goes_on(folder)


@pytest.mark.parametrize(("place", "words"), [("file", "Not a directory"), ("file/below", "Not a directory")])
def test_a_place_that_is_no_folder_is_refused(tmp_path: Path, place: str, words: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=words):
        write_checkpoint(tmp_path / place, "a", small())
    with pytest.raises(CheckpointError, match="cannot read checkpoints in"):
        checkpoint_names(tmp_path / place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "a", small())
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(
            CheckpointError, match=r"Permission denied[^\n]*\nhint: name a folder that you may write to"
        ):
            write_checkpoint(tmp_path, "b", small())
    finally:
        tmp_path.chmod(0o700)


def race(folder: Path, number: int, rounds: int, queue: Any) -> None:
    wrote = refused = 0
    for turn in range(rounds):
        error = error_of(write_checkpoint, folder, f"{turn:04d}-{number}", small(turn))
        assert error is None or "in use by another job" in error.message
        wrote, refused = wrote + (error is None), refused + (error is not None)
    queue.put((wrote, refused))


@pytest.mark.parametrize("rounds", [30, pytest.param(1000, marks=pytest.mark.full)])
def test_two_writers_at_once_leave_whole_checkpoints(tmp_path: Path, rounds: int) -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    writers = [context.Process(target=race, args=(tmp_path, number, rounds, queue)) for number in range(2)]
    for writer in writers:
        writer.start()
    results = [queue.get(timeout=250) for _ in writers]
    for writer in writers:
        writer.join(60)
    names = checkpoint_names(tmp_path)
    assert len(names) == sum(wrote for wrote, _ in results) > 0
    for name in names:
        assert equal(read_checkpoint(tmp_path / name), small(int(name[:4])))
    assert sorted(os.listdir(tmp_path)) == [".lock", *names]


def test_a_checkpoint_with_a_folder_inside_is_pruned_with_a_clear_error(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    (folder / "0001" / "mine").mkdir()
    write_checkpoint(folder, "0002", small(2))
    with pytest.raises(CheckpointError, match="Is a directory"):
        prune(folder, 1)
    assert state(folder) == "new"
