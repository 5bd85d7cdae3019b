"""The resources of a loader while it runs and afterwards: threads, memory, files; and damage on the way."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast.errors import DataError
from abreast.records import Records, pack
from abreast.records.decoding.batch_memory import BatchMemory
from abreast.records.loading.loader import Loader
from abreast.records.threads import Pool
from tests.harness.client import ROOT
from tests.records.pieces import photo, said_in_a_fork


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pack([(photo(40, 40, seed=i), i) for i in range(24)], tmp_path / "out", shard_mb=0.02)
    return tmp_path / "out"


def loader(folder: Path, **settings: Any) -> Loader:
    return Loader(folder, **{"batch_size": 4, "size": 32, "num_threads": 2, **settings})


def decode_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("abreast-decode")]


def test_threads_end_with_the_iteration(folder: Path) -> None:
    batches = loader(folder)
    assert decode_threads() == []
    for i, _ in enumerate(batches):
        assert bool(decode_threads()) == (i < 5)  # gone with the last batch, of which nobody may ask for the next
    for _ in batches:
        break
    gc.collect()
    assert decode_threads() == []


def test_threads_end_when_their_iterator_is_freed(folder: Path) -> None:
    iterator = iter(loader(folder))
    next(iterator)
    assert decode_threads()
    del iterator
    gc.collect()
    assert decode_threads() == []


def test_a_loader_without_references_is_freed(folder: Path) -> None:
    batches = loader(folder)
    list(batches)
    batches[0]
    ended = weakref.ref(batches)
    del batches
    gc.collect()
    assert ended() is None
    assert str(folder) not in Path("/proc/self/maps").read_text()


def test_closing_gives_the_files_back(folder: Path) -> None:
    with loader(folder) as batches:
        images, _ = batches[0]
        copy = images.copy()
    batches.close()
    gc.collect()
    assert str(folder) not in Path("/proc/self/maps").read_text()
    np.testing.assert_array_equal(images, copy)
    with pytest.raises(DataError, match="was closed"):
        next(iter(batches))
    assert decode_threads() == []


def num_changed(folder: Path) -> int:
    """How many changed of the batches of an epoch that are all kept, and of the views of the next epoch."""
    plain = loader(folder)
    expected = [images.copy() for _ in range(2) for images, _ in plain]
    batches = loader(folder)
    kept = [images for images, _ in batches]
    views = [images[1:3] for images, _ in batches]
    changed = [not np.array_equal(*each) for each in zip(kept, expected[:6], strict=True)]
    changed += [not np.array_equal(view, images[1:3]) for view, images in zip(views, expected[6:], strict=True)]
    return sum(changed)


def test_batches_that_are_kept_do_not_change(folder: Path) -> None:
    assert num_changed(folder) == 0


def test_the_check_of_kept_batches_notices_a_ring(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: memory that is used again while a batch is still held."""
    ring = [np.empty((4, 32, 32, 3), np.uint8) for _ in range(4)]
    turns = itertools.cycle(ring)
    monkeypatch.setattr(BatchMemory, "array", lambda self, shape: next(turns))
    assert num_changed(folder) > 0


def test_memory_is_used_again_after_its_batch_is_freed(folder: Path) -> None:
    batches = loader(folder)
    places = {images.ctypes.data for _ in range(5) for images, _ in batches}
    assert len(places) <= 5  # of 30 batches: two ahead, one in hand, one that its thread has not let go yet
    assert all(place % 4096 == 0 for place in places)


def test_free_blocks_are_not_kept_without_end() -> None:
    buffers = BatchMemory(4096, keep=2)
    arrays = [buffers.array((4096,)) for _ in range(5)]
    view = arrays[0][10:20]
    del arrays
    assert len(buffers._free) == 2
    assert view.base is not None
    place = view.ctypes.data - 10
    del view
    assert len(buffers._free) == 2 and buffers.array((4096,)).ctypes.data == place


def damage(folder: Path, number: int) -> tuple[Path, int]:
    """Flip a bit in the middle of a sample; returns the file and the sample's offset."""
    with Records(folder) as records:
        for path, index in records.shards():
            i = number - index.first_sample
            if 0 <= i < index.num_samples:
                offset, size = (int(index.samples[name][i]) for name in ("offset", "length"))
                data = bytearray(path.read_bytes())
                data[offset + size // 2] ^= 1
                path.write_bytes(data)
                return path, offset
    raise AssertionError(number)


@pytest.mark.parametrize("number", [0, 13, 23])
def test_a_damaged_sample_is_named(folder: Path, number: int) -> None:
    path, offset = damage(folder, number)
    batches = loader(folder, shuffle=False)
    iterator = iter(batches)
    given = [next(iterator)[1].tolist() for _ in range(number // 4)]
    with pytest.raises(DataError) as caught:
        next(iterator)
    assert np.concatenate([[], *given]).tolist() == list(range(number // 4 * 4))
    assert f"{path} is damaged: sample {number} (" in caught.value.message
    assert f"bytes {offset} to" in caught.value.message
    assert decode_threads() == []


def test_an_unfinished_data_set_is_refused(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    with pytest.raises(DataError, match="holds no packed images"):
        loader(folder)


def test_the_next_batches_are_asked_for_from_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    plain = Records.will_need

    def will_need(self: Records, numbers: Any) -> None:
        asked.extend(numbers)
        plain(self, asked[-4:])

    monkeypatch.setattr(Records, "will_need", will_need)
    labels = [label for _, each in loader(folder) for label in each.tolist()]
    assert asked == labels  # each sample once, in the order of the epoch


def test_requested_samples_are_read_into_memory(folder: Path) -> None:
    with Records(folder) as records:
        records.will_need(range(24))
        with pytest.raises(IndexError):
            records.will_need([24])


def test_an_iteration_does_not_go_on_in_a_fork(folder: Path) -> None:
    """Its threads stayed in the parent. Another iteration may begin there."""
    batches = loader(folder)
    iterator = iter(batches)
    next(iterator)

    def go_on() -> str:
        try:
            next(iterator)
        except DataError as error:
            return f"{len(list(batches))} {error.message}"
        return "it goes on"

    assert said_in_a_fork(go_on) == "6 an iteration cannot continue in a forked process"
    assert len(list(iterator)) == 5


@pytest.mark.parametrize("most", [0, 1])
def test_a_thread_that_cannot_start_is_an_error_and_not_a_wait(
    folder: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The system starts at most `most` threads."""
    begin = threading.Thread.start
    begun: list[threading.Thread] = []

    def start(self: threading.Thread) -> None:
        if self.name.startswith("abreast"):
            if len(begun) == most:
                raise RuntimeError("can't start new thread")
            begun.append(self)
        begin(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    why = "cannot start 3 threads: can't start new thread\nhint: give fewer"
    with pytest.raises(DataError, match=rf"{why} \(num_threads\)"):
        list(loader(folder, num_threads=3))
    begun.clear()
    with pytest.raises(DataError, match=rf"{why} \(threads\)"):
        pack([photo(8, 8)] * 9, folder.with_name("other"), threads=3)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("abreast")] == []


def test_ctrl_c_within_the_semaphore_of_a_pool_is_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's `Semaphore` then loses its lock, and raises `release unlocked lock`, as if a thread could not start."""

    def interrupt(_state: object) -> None:
        raise KeyboardInterrupt

    with Pool(2, "abreast-decode", "num_threads") as pool:
        condition = pool._idle_semaphore._cond  # type: ignore[attr-defined]
        monkeypatch.setattr(condition, "_acquire_restore", interrupt, raising=False)
        with pytest.raises(KeyboardInterrupt):
            pool.submit(int)
        monkeypatch.undo()
        assert pool.submit(int).result() == 0


# An interrupt within the end of an epoch leaves threads that are about to end.
_INTERRUPTED = """
import sys, threading, time
from abreast.records.loading.loader import Loader
from abreast.records.threads import Pool
batches = Loader(sys.argv[1], 4, size=32, num_threads=2)
print("ready", flush=True)
try:
    while True:
        for batch in batches:
            pass
except KeyboardInterrupt:
    end = time.monotonic() + 5
    while threading.active_count() > 1 and time.monotonic() < end:
        time.sleep(0.01)
print([t.name for t in threading.enumerate() if t.name.startswith("abreast") and t.is_alive()])
"""  # an interrupt within `Thread.start` leaves a thread in Python's list that never ran


def test_ctrl_c_ends_the_threads(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", _INTERRUPTED, str(folder)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=8)
    except subprocess.TimeoutExpired:  # Python loses an interrupt within a finalizer: a user presses Ctrl-C again
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "[]\n"), err
