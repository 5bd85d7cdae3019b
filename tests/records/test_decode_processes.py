"""`num_workers`: processes give the batches that threads give, and end when they should, whatever ends them."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from abreast.errors import DataError, WorkerError
from abreast.records import Records, pack
from abreast.records.decoding.batch_memory import Arena, BatchMemory
from abreast.records.loading.loader import Loader
from tests.harness.client import ROOT
from tests.records.pieces import assert_same, copied, photo

NUM_SAMPLES = 26


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    images = [photo(40 + i, 60 - i, seed=i) for i in range(NUM_SAMPLES)]
    pack(list(zip(images, range(NUM_SAMPLES), strict=True)), tmp_path / "out", shard_mb=0.02)
    return tmp_path / "out"


def loader(folder: Path, **settings: Any) -> Loader:
    return Loader(folder, **{"batch_size": 6, "size": 32, "num_threads": 2, "seed": 3, "num_workers": 2, **settings})


def decoding() -> list[int]:
    """Ids of our decoding processes that run."""
    found = []
    for child in psutil.Process().children():
        try:
            if "decode_process" in " ".join(child.cmdline()) and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child.pid)
        except psutil.NoSuchProcess:
            continue
    return sorted(found)


def soon(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize(("num_workers", "num_threads"), [(1, 1), (3, 5)])
def test_processes_give_the_batches_of_threads(folder: Path, num_workers: int, num_threads: int) -> None:
    plain = loader(folder, num_workers=0)
    expected = copied(plain) + copied(plain)
    with loader(folder, num_workers=num_workers, num_threads=num_threads) as batches:
        assert_same(copied(batches) + copied(batches), expected)
        assert len(decoding()) == num_workers


def test_a_state_goes_on_among_processes(folder: Path) -> None:
    plain = loader(folder, num_workers=0)
    expected = copied(plain)
    with loader(folder) as batches:
        batches.restore(plain.state(0, 2))
        assert_same(copied(batches), expected[2:])


def test_the_same_processes_work_for_every_epoch(folder: Path) -> None:
    with loader(folder) as batches:
        list(batches)
        first = decoding()
        for _ in batches:
            break
        gc.collect()
        list(batches)
        assert len(first) == 2 and decoding() == first
    assert decoding() == []


def test_two_iterations_at_once_have_processes_of_their_own(folder: Path) -> None:
    expected = copied(loader(folder, num_workers=0))
    with loader(folder) as batches:
        pairs = list(zip(batches, batches, strict=True))
        assert len(decoding()) == 4
        for i in range(2):
            assert_same([pair[i] for pair in pairs], expected)


def test_processes_end_when_their_loader_is_freed(folder: Path) -> None:
    batches = loader(folder)
    iterator = iter(batches)
    next(iterator)
    assert len(decoding()) == 2
    del batches, iterator
    gc.collect()
    assert decoding() == []


def test_a_killed_process_is_an_error_at_once(folder: Path) -> None:
    expected = copied(loader(folder, num_workers=0))
    with loader(folder) as batches:
        list(batches)
        batches.restore(batches.state(0, 0))
        iterator = iter(batches)
        next(iterator)
        lost = decoding()[1]
        os.kill(lost, signal.SIGKILL)
        begin = time.monotonic()
        with pytest.raises(WorkerError) as caught:
            list(iterator)
        assert time.monotonic() - begin < 5
        assert f"process id {lost}) was killed (signal 9)" in caught.value.message
        assert decoding() == []
        assert_same(copied(batches), expected)  # from the begin of the epoch, with new processes


@pytest.mark.parametrize("moment", ["before a task", "with a task"])
def test_a_stopped_process_is_an_error_after_a_limit(
    folder: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABREAST_HANG_SECONDS", "1.5")
    with loader(folder) as batches:
        iterator = iter(batches)
        next(iterator)
        if moment == "before a task":
            list(iterator)
            iterator = iter(batches)
        for process in decoding():
            os.kill(process, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(WorkerError, match=r"decoding process \d \(process id \d+\) has not answered for 1.5 s"):
            list(iterator)
        assert time.monotonic() - began < 8
    assert soon(lambda: decoding() == [])


def test_a_stopped_process_does_not_hold_up_closing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABREAST_HANG_SECONDS", "1.5")
    batches = loader(folder)
    next(iter(batches))
    for process in decoding():
        os.kill(process, signal.SIGSTOP)
    began = time.monotonic()
    batches.close()
    gc.collect()
    assert time.monotonic() - began < 8
    assert soon(lambda: decoding() == [])


def test_a_process_that_cannot_start_is_an_error_at_once(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with loader(folder) as batches:
        (folder / "manifest.json").unlink()
        with pytest.raises(WorkerError, match="ended with exit code 1"):
            list(batches)
    assert "holds no packed images" in capfd.readouterr().err


def test_a_data_set_that_was_packed_again_is_refused(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with loader(folder) as batches:
        other = folder.with_name("other")
        pack([(photo(40, 40, seed=99), 0)], other)
        folder.rename(folder.with_name("old"))
        other.rename(folder)
        with pytest.raises(WorkerError):
            list(batches)
    assert "was packed again" in capfd.readouterr().err


def test_a_damaged_sample_is_named_as_by_threads(folder: Path) -> None:
    with Records(folder) as records:
        path, index = next(records.shards())
        offset, size = (int(index.samples[name][1]) for name in ("offset", "length"))
    data = bytearray(path.read_bytes())
    data[offset + size // 2] ^= 1
    path.write_bytes(data)
    messages = []
    for num_workers in (0, 2):
        with loader(folder, num_workers=num_workers) as batches, pytest.raises(DataError) as caught:
            list(batches)
        messages.append(str(caught.value))
    assert messages[0] == messages[1] and "is damaged: sample 1 (" in messages[0]


def test_batches_that_are_kept_do_not_change(folder: Path) -> None:
    with loader(folder) as batches:
        kept = [images for _ in range(4) for images, _ in batches]
        sums = [int(images.sum()) for images in kept]
        for _ in range(2):
            list(batches)
        assert [int(images.sum()) for images in kept] == sums
    assert [int(images.sum()) for images in kept] == sums  # and live longer than the processes


def test_shared_memory_is_used_again_and_given_back() -> None:
    arena = Arena(10_000)
    buffers = BatchMemory(10_000, keep=2, arena=arena)
    arrays = [buffers.array((10_000,)) for _ in range(6)]
    for i, array in enumerate(arrays):
        array[:] = i
    offsets = [arena.offset_of(array) for array in arrays]
    assert sorted(offsets) == [12288 * i for i in range(6)]
    assert os.fstat(arena.descriptor).st_blocks * 512 == 6 * 12288
    del arrays, array
    assert len(buffers._free) == 2 and os.fstat(arena.descriptor).st_blocks * 512 == 2 * 12288
    again = [buffers.array((10_000,)) for _ in range(6)]
    assert sorted(arena.offset_of(each) for each in again) == sorted(offsets)


_READER = """
import sys
from abreast.records.loading.loader import Loader
batches = Loader(sys.argv[1], 6, size=32, num_threads=2, num_workers=2)
try:
    while True:
        for batch in batches:
            print("ready", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_reader_that_was_ended(folder: Path, number: signal.Signals) -> None:
    """Ctrl-C goes to its whole group; otherwise orphans and files in /dev/shm would remain."""
    before = set(os.listdir("/dev/shm"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        [sys.executable, "-c", _READER, str(folder)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    children = psutil.Process(process.pid).children()
    assert len(children) == 2
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == (0 if number == signal.SIGINT else -number), err
    assert ("interrupted" in out) == (number == signal.SIGINT) and err == ""
    assert soon(lambda: not any(child.is_running() for child in children))
    assert set(os.listdir("/dev/shm")) <= before  # other programs may take theirs away meanwhile


_FORKED = """
import os, sys
import numpy as np
from abreast.records.loading.loader import Loader
batches = Loader(sys.argv[1], 6, size=32, num_threads=2, num_workers=2)
expected = [images.copy() for images, _ in batches]
batches.restore(batches.state(0, 0))
iterator = iter(batches)
found = [next(iterator)[0].copy()]
child = os.fork()
if not child:
    same = all(map(np.array_equal, expected, (images for images, _ in batches)))
    batches.close()
    os._exit(0 if same else 3)
found += [images.copy() for images, _ in iterator]
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert all(map(np.array_equal, expected, found))
print("same")
"""


def test_a_forked_child_has_processes_of_its_own(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", _FORKED, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr


def test_a_number_of_processes_is_a_number(folder: Path) -> None:
    for wrong in (-1, 1.5, "2"):
        with pytest.raises(DataError, match="num_workers"):
            loader(folder, num_workers=wrong)
