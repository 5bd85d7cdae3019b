"""A packer may die, lose power, or find the disk full at any moment: its folder is whole, can be gone on with, or is refused."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from abreast.durable_files import Files
from abreast.errors import DataError
from abreast.records import Records
from abreast.records.packing.durable import PartFile, locked
from tests.harness.client import ROOT
from tests.harness.crashes import Failing, PowerLoss, Stingy, Watched, power_losses, put
from tests.records import crashes
from tests.records.crashes import packed, state
from tests.records.pieces import contents, file_of, photo, small_pack


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, bytes]:
    packed(tmp_path / "whole")
    return contents(tmp_path / "whole")


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), *sys.path])}


@pytest.mark.in_turn
def test_a_packer_may_be_killed_at_each_of_its_calls(tmp_path: Path) -> None:
    done = subprocess.run(
        python("-m", "tests.records.crashes", str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=200,
        cwd=ROOT,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == found["mended"] == 3 * found["calls"] > 100
    assert set(found["states"]) == {"whole", "refused"}


@pytest.mark.parametrize("count", [5, pytest.param(100, marks=pytest.mark.full)])
def test_a_packer_may_be_killed_at_any_time(tmp_path: Path, whole: dict[str, bytes], count: int) -> None:
    draw = random.Random(0)
    script = (
        "import sys; from pathlib import Path; from tests.records.crashes import packed\n"
        "print(1, flush=True); packed(Path(sys.argv[1]))"
    )
    for i in range(count):
        folder = tmp_path / str(i)
        with subprocess.Popen(
            python("-c", script, str(folder)), stdout=subprocess.PIPE, cwd=ROOT, env=environment()
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(draw.random() * 0.03)
            child.kill()
        if folder.exists():
            assert state(folder, whole) in ("whole", "refused")
        packed(folder)
        assert contents(folder) == whole


def test_a_full_disk_is_one_clear_error_wherever_it_comes(tmp_path: Path, whole: dict[str, bytes]) -> None:
    total = crashes.num_calls(tmp_path / "counted")
    for stays in (False, True):
        for at in range(1, total + 1):
            folder = tmp_path / f"{stays}-{at}"
            files = Failing(at, stays=stays)
            with pytest.raises(DataError, match="No space left on device") as caught:
                packed(folder, files)
            assert files.failed
            assert "hint: fix that and run the same command again" in str(caught.value)
            assert not folder.exists() or not [name for name in contents(folder) if name.endswith(".part")] or not stays
            assert not folder.exists() or state(folder, whole) in ("whole", "refused")
            packed(folder)
            assert contents(folder) == whole


@pytest.mark.parametrize("number", [errno.EIO, errno.EDQUOT, errno.EMFILE, errno.EROFS])
def test_other_errors_of_the_system_are_reported_in_its_words(tmp_path: Path, number: int) -> None:
    with pytest.raises(DataError, match=os.strerror(number)):
        packed(tmp_path / "out", Failing(9, number))


def test_a_limit_of_the_system_is_reported_too(tmp_path: Path) -> None:
    """Not a fault that we inject: the kernel refuses to let a file grow."""
    script = (
        "import resource, sys; from tests.records.pieces import small_pack; from abreast.errors import DataError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "try: small_pack(sys.argv[1])\nexcept DataError as error: print(error)\n"
    )
    command = python("-c", script, str(tmp_path / "out"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, env=environment())
    assert "File too large\nhint: fix that and run the same command again" in done.stdout, done.stderr
    assert not [name for name in contents(tmp_path / "out") if name.endswith(".part")]


def test_short_writes_are_continued(tmp_path: Path, whole: dict[str, bytes]) -> None:
    files = Stingy()
    packed(tmp_path / "out", files)
    assert files.num_calls > 1000
    assert contents(tmp_path / "out") == whole


def test_a_power_cut_leaves_nothing_half_valid(tmp_path: Path, whole: dict[str, bytes]) -> None:
    states = power_losses(tmp_path / "first", packed)
    found = set()
    for files in states:
        folder = put(tmp_path / "out", files)
        found.add(state(folder, whole))
        packed(folder)
        assert contents(folder) == whole
    assert len(states) > 80
    assert found == {"whole", "refused"}


def test_a_shard_goes_to_the_disk_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that its end does not wait for all of it; each byte is asked for once, and in the end all are synced."""
    asked: list[tuple[int, int]] = []
    synced: list[int] = []

    class Heard(Files):
        def begin_sync(self, descriptor: int, offset: int, num_bytes: int) -> None:
            asked.append((offset, num_bytes))
            super().begin_sync(descriptor, offset, num_bytes)

        def sync(self, descriptor: int) -> None:
            synced.append(os.fstat(descriptor).st_size)
            super().sync(descriptor)

    monkeypatch.setattr("abreast.records.packing.durable._AHEAD_BYTES", 1000)
    file = PartFile(tmp_path / "shard", Heard())
    for size in (400, 500, 2500, 100, 999, 7):
        file.write(bytes(size))
    assert asked == [(0, 3400), (3400, 1099)]
    file.sync()
    file.publish()
    assert synced == [4506] and (tmp_path / "shard").read_bytes() == bytes(4506)


def test_the_names_of_new_folders_are_synced_too(tmp_path: Path) -> None:
    synced: list[Path] = []

    class Heard(Files):
        def sync_folder(self, path: Path) -> None:
            synced.append(path)
            super().sync_folder(path)

    packed(tmp_path / "new" / "out", Heard())
    assert synced[:2] == [tmp_path, tmp_path / "new"]


def test_without_syncing_a_power_cut_would_do_harm(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """The negative control: a manifest that survived looks valid by its names, although its shards did not survive."""
    loss = PowerLoss(tmp_path / "first", no_op=("sync",))
    packed(tmp_path / "first", loss)
    left = loss.states()
    assert any("manifest.json" in files and files != whole and "packing.json" not in files for files in left)


def test_without_renaming_a_kill_would_do_harm(
    tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the kills: a packer that writes under the last names at once."""
    monkeypatch.setattr("abreast.records.packing.durable.PART", "")
    monkeypatch.setattr(Files, "rename", lambda *_: None)
    files = Failing(crashes.num_calls(tmp_path / "counted") - 6)
    monkeypatch.setattr(Files, "remove", lambda *_: None)
    with pytest.raises(DataError):
        packed(tmp_path / "out", files)
    assert (tmp_path / "out" / "manifest.json").exists()
    assert contents(tmp_path / "out")["manifest.json"] != whole["manifest.json"]


def test_a_lock_that_its_holder_removes_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between our opening the file and locking it, the packer before us ends."""
    path, flock = tmp_path / "lock", fcntl.flock
    calls: list[int] = []

    def late(descriptor: int, how: int) -> None:
        if not calls:
            path.unlink()
        calls.append(descriptor)
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked(path):
        assert path.exists() and len(calls) == 2
        with pytest.raises(DataError, match="another packer is writing"), locked(path):
            pass
    assert not path.exists()


def test_ctrl_c_leaves_whole_shards(tmp_path: Path, whole: dict[str, bytes]) -> None:
    class Interrupted(Watched):
        def at_call(self, name, do, arguments):  # type: ignore[no-untyped-def]
            if self.num_calls == 20:
                signal.raise_signal(signal.SIGINT)
            return do(*arguments)

    with pytest.raises(KeyboardInterrupt):
        packed(tmp_path / "out", Interrupted())
    assert not [name for name in contents(tmp_path / "out") if name.endswith((".part", ".lock"))]
    assert state(tmp_path / "out", whole) == "refused"
    packed(tmp_path / "out")
    assert contents(tmp_path / "out") == whole
    with Records(tmp_path / "out") as records:
        assert len(records) == small_pack(tmp_path / "out", crashes.COUNT).num_samples


def test_ctrl_c_of_the_command_prints_how_to_continue(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.jpg").write_bytes(file_of(photo(1500, 1500), "JPEG"))
    for i in range(1, 60):
        (tmp_path / "in" / f"{i}.jpg").hardlink_to(tmp_path / "in" / "0.jpg")
    command = python("-m", "abreast", "pack", str(tmp_path / "in"), str(tmp_path / "out"), "--threads", "1")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment()
    ) as child:
        deadline = time.monotonic() + 60
        while not list((tmp_path / "out").glob("*.tar.part")) and time.monotonic() < deadline:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (130, "")
    assert err.endswith("abreast: stopped\nhint: run the same command again to continue after the last whole shard\n")
    assert sorted(contents(tmp_path / "out")) == ["packing.json"]
    assert subprocess.run(command, capture_output=True, timeout=100, cwd=ROOT, env=environment()).returncode == 0
    with Records(tmp_path / "out") as records:
        assert len(records) == 60
