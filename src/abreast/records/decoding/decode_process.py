"""A process that paints rows of batches into memory that it shares with the process that started it.

It ends with that one, however that ends. Between them go packets: a table of numbers there, a task's number back, with JSON
behind it when it failed. Nothing is pickled. Imports `painters`, `reader`, `sizes`, `extras`, `columns` and `errors`.
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
from abreast.records.decoding.painters import Rows
from abreast.records.extras import extra
from abreast.records.format.columns import Array
from abreast.records.reading.reader import Records
from abreast.records.reading.sizes import Sizes

NUMBER = struct.Struct("<q")
ANSWER_BYTES = 32 * 1024
COLUMNS = 6  # of a task's table: number, left, top, width, height, flip; the first row says what and where
_TASK_BYTES = 128 * 1024
_LOOK_SECONDS = 2.0


class Setup(NamedTuple):
    """What a process is told at its start: of the data sets (`sizes.py`) where they are, the largest first, and which.

    `data_sets` are what the caller found there.
    """

    folders: list[str]
    data_sets: list[str]
    image_shape: tuple[int, ...]
    block_bytes: int
    antialias: bool
    num_threads: int


def main(argument: dict[str, Any]) -> None:
    """From start to end; does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setup = Setup(**{name: argument[name] for name in Setup._fields})
    extra("cv2").setNumThreads(1)
    worker = _Worker(setup, argument["arena"], socket.socket(fileno=argument["socket"]))
    with ThreadPoolExecutor(setup.num_threads) as pool:
        while task := _next_task(worker.socket, argument["parent"]):
            pool.submit(worker.do, np.frombuffer(task, np.int64).reshape(-1, COLUMNS))
        os._exit(0)  # what is not done is for nobody


def _next_task(caller: socket.socket, parent: int) -> bytes:
    """Nothing when the caller has ended. A child that it forked may hold its end of the socket open: so look, too."""
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
    def __init__(self, setup: Setup, arena: int, caller: socket.socket) -> None:
        self.socket = caller
        sizes = Sizes(Records(setup.folders[0]), setup.folders[1:])
        for folder, now, before in zip(setup.folders, sizes.data_sets, setup.data_sets, strict=True):
            if now != before:
                raise DataError(f"{folder} was packed again while it was in use", "open it again")
        self._rows = Rows(sizes, setup.image_shape[2], setup.antialias)
        self._shape = setup.image_shape
        self._block_bytes = setup.block_bytes
        self._arena = arena
        self._blocks: dict[int, mmap.mmap] = {}
        self._lock = threading.Lock()

    def do(self, table: Array) -> None:
        """Paint the rows of a table, and say so."""
        task, begin, first, image_bytes = table[0, :4].tolist()
        rows = table[1:]
        words = b""
        try:
            block = np.frombuffer(self._block(begin), np.uint8)
            images: Pixels = block[first * image_bytes : (first + len(rows)) * image_bytes].reshape(-1, *self._shape)
            self._rows.paint(rows[:, 0], rows[:, 1:5], rows[:, 5].astype(bool), images)
        except BaseException as error:
            words = json.dumps(_told(error)).encode()
        with contextlib.suppress(OSError):  # the caller has ended
            self.socket.send(NUMBER.pack(task) + words)

    def _block(self, begin: int) -> mmap.mmap:
        with self._lock:
            if begin not in self._blocks:
                self._blocks[begin] = mmap.mmap(self._arena, self._block_bytes, offset=begin)
            return self._blocks[begin]


def _told(error: BaseException) -> dict[str, str | None]:
    if isinstance(error, DataError):
        return {"message": error.message[:2500], "hint": error.hint, "traceback": None}
    text = "".join(traceback.format_exception(error))
    return {"message": f"{type(error).__name__}: {error}"[:1000], "hint": None, "traceback": text[-2500:]}
