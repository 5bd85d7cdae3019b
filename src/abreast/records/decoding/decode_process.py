"""A decoding process, seen from inside. It paints rows of batches into memory that it shares with the caller's process.

It ends when the caller's process ends, for whatever reason. The caller sends a packet per task, a table of numbers. The
answer is the number of the task, followed by JSON if the task failed. Nothing is pickled.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import socket
import struct
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from abreast.errors import DataError
from abreast.records.decoding.images import Pixels
from abreast.records.decoding.painters import RowPainter
from abreast.records.extras import extra
from abreast.records.format.columns import Array
from abreast.records.reading.reader import Records
from abreast.records.reading.sizes import Sizes

NUMBER = struct.Struct("<q")
ANSWER_BYTES = 32 * 1024
# A task's table has a row of number, left, top, width, height and flip for each view. Its first row describes the task:
# its number, the block's begin in the arena, the first row in the batch, and the bytes of an image.
COLUMNS = 6
_TASK_BYTES = 128 * 1024
_LOOK_SECONDS = 2.0


class ProcessSettings(NamedTuple):
    """The settings of a process: the folders of the data sets, the largest first (`sizes.py`), and how to paint.

    `data_sets` are the names of the data sets that the caller found in the folders.
    """

    folders: list[str]
    data_sets: list[str]
    image_shape: tuple[int, ...]
    block_bytes: int
    antialias: bool
    num_threads: int


def main(argument: dict[str, Any]) -> None:
    """Runs the process from start to end, and does not return."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):  # for the caller; Slurm sends them to every process
        signal.signal(number, signal.SIG_IGN)
    setup = ProcessSettings(**{name: argument[name] for name in ProcessSettings._fields})
    extra("cv2").setNumThreads(1)
    worker = _Worker(setup, argument["arena"], socket.socket(fileno=argument["socket"]))
    with ThreadPoolExecutor(setup.num_threads) as pool:
        while task := _next_task(worker.socket, argument["parent"]):
            pool.submit(worker.do, np.frombuffer(task, np.int64).reshape(-1, COLUMNS))
        os._exit(0)  # no process waits for the unfinished tasks


def _next_task(caller: socket.socket, parent: int) -> bytes:
    """The next task; empty when the caller has ended.

    The parent's id is compared too: a child that the caller forked may keep the caller's end of the socket open.
    """
    caller.settimeout(_LOOK_SECONDS)
    while os.getppid() == parent:
        try:
            return caller.recv(_TASK_BYTES)
        except TimeoutError:
            continue
        except OSError:
            break
    return b""


class _Worker:
    def __init__(self, setup: ProcessSettings, arena: int, caller: socket.socket) -> None:
        self.socket = caller
        sizes = Sizes(Records(setup.folders[0]), setup.folders[1:])
        for folder, now, before in zip(setup.folders, sizes.data_sets, setup.data_sets, strict=True):
            if now != before:
                raise DataError(f"{folder} was packed again while it was in use", "open it again")
        self._rows = RowPainter(sizes, setup.image_shape[2], setup.antialias)
        self._shape = setup.image_shape
        self._block_bytes = setup.block_bytes
        self._arena = arena
        self._blocks: dict[int, mmap.mmap] = {}
        self._lock = threading.Lock()

    def do(self, table: Array) -> None:
        """Paint the rows of a table, then answer."""
        task, begin, first, image_bytes = table[0, :4].tolist()
        rows = table[1:]
        words = b""
        try:
            block = np.frombuffer(self._block(begin), np.uint8)
            images: Pixels = block[first * image_bytes : (first + len(rows)) * image_bytes].reshape(-1, *self._shape)
            self._rows.paint(rows[:, 0], rows[:, 1:5], rows[:, 5].astype(bool), images)
        except BaseException as error:
            words = json.dumps(_described(error)).encode()
        with contextlib.suppress(OSError):  # the caller has ended
            self.socket.send(NUMBER.pack(task) + words)

    def _block(self, begin: int) -> mmap.mmap:
        with self._lock:
            if begin not in self._blocks:
                self._blocks[begin] = mmap.mmap(self._arena, self._block_bytes, offset=begin)
            return self._blocks[begin]


def _described(error: BaseException) -> dict[str, str | None]:
    if isinstance(error, DataError):
        return {"message": error.message[:2500], "hint": error.hint, "traceback": None}
    text = "".join(traceback.format_exception(error))
    return {"message": f"{type(error).__name__}: {error}"[:1000], "hint": None, "traceback": text[-2500:]}
