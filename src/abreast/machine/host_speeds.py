"""The host's own rates: copies in memory, TCP over the loopback interface, and a file on the disk."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import DataError

_COPY_BYTES = 256 << 20  # more than any cache
_SENT_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 20
_FILE_BYTES = 256 << 20
_READ_BYTES = 8 << 20
_TIMES = 5
_ROUND_TRIPS = 500
_WAIT_SECONDS = 30.0


def memory() -> dict[str, Any]:
    """Bytes per second that one core copies. A byte counts once, although it is read and written."""
    source = np.ones(_COPY_BYTES, "uint8")
    target = np.empty_like(source)
    return {"memory_copy_bytes_per_second": _COPY_BYTES / _median(lambda: np.copyto(target, source))}


def loopback() -> dict[str, Any]:
    """A TCP connection over the loopback interface: its bandwidth, and its latency (half the round trip of one byte)."""
    try:
        with _connection() as (ours, theirs):
            rate, latency = connection(ours, theirs)
    except OSError as error:  # a container without a loopback interface
        return {"notes": [f"the loopback was not measured: {error.strerror or error}"]}
    return {"loopback_bytes_per_second": rate, "loopback_latency_seconds": latency}


def connection(ours: socket.socket, theirs: socket.socket, sent_bytes: int = _SENT_BYTES) -> tuple[float, float]:
    """A TCP connection's bytes per second one way, and half the round trip of one byte. `ours` and `theirs` are its ends."""
    for end in (ours, theirs):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.settimeout(_WAIT_SECONDS)
    latency = _latency(ours, theirs)
    seconds = _median(lambda: _send_all(ours, theirs, sent_bytes))
    return sent_bytes / (seconds - min(latency, seconds / 2)), latency


def disk(folder: Path, file_bytes: int = _FILE_BYTES) -> dict[str, Any]:
    """Rates of a new file that is written to the disk, and read back past the page cache.

    Raises `DataError` if the file cannot be written.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".abreast-disk-") as file:
            written = _write(file.fileno(), file_bytes)
            with _uncached(file.name) as (descriptor, how):
                read = _read(descriptor)
    except OSError as error:
        raise DataError(
            f"cannot measure the disk of {folder}: {error.strerror or error}",
            "give a folder that you may write to: --disk FOLDER",
        ) from error
    return {
        "disk_folder": str(folder.resolve()),
        "disk_write_bytes_per_second": file_bytes / written,
        "disk_read_bytes_per_second": file_bytes / read,
        "disk_read_how": how,
    }


def _median(call: Callable[[], object]) -> float:
    """Median time of a call, without the first one."""
    taken = []
    for _ in range(_TIMES + 1):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


@contextlib.contextmanager
def _connection() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname(), _WAIT_SECONDS)
        with ours:
            theirs, _ = server.accept()
            with theirs:
                yield ours, theirs


def _send_all(ours: socket.socket, theirs: socket.socket, sent_bytes: int) -> None:
    chunk = memoryview(bytes(_CHUNK_BYTES))
    with _meanwhile(_receive, theirs, sent_bytes):
        for start in range(0, sent_bytes, _CHUNK_BYTES):
            ours.sendall(chunk[: sent_bytes - start])


def _receive(end: socket.socket, size: int) -> None:
    buffer = bytearray(_CHUNK_BYTES)
    while size > 0:
        size -= _some(end.recv_into(buffer))


def _latency(ours: socket.socket, theirs: socket.socket) -> float:
    taken = []
    with _meanwhile(_echo, theirs):
        for _ in range(_ROUND_TRIPS):
            start = time.perf_counter()
            ours.sendall(b"x")
            _some(len(ours.recv(1)))
            taken.append(time.perf_counter() - start)
    return statistics.median(taken) / 2


def _echo(end: socket.socket) -> None:
    for _ in range(_ROUND_TRIPS):
        byte = end.recv(1)
        _some(len(byte))
        end.sendall(byte)


def _some(received_bytes: int) -> int:
    if received_bytes == 0:
        raise ConnectionError("the connection was closed")
    return received_bytes


@contextlib.contextmanager
def _meanwhile(call: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """Run `call`, the other end of a connection, in a thread during the block; its `OSError` is raised at the block's end.

    After Ctrl-C the thread is not waited for: it ends with its connection.
    """
    failed: list[OSError] = []

    def run() -> None:
        try:
            call(*arguments)
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(_WAIT_SECONDS)
    if failed:
        raise failed[0]


def _write(descriptor: int, file_bytes: int) -> float:
    data = np.random.default_rng(0).bytes(_READ_BYTES)  # random, since some disks do not store zeros
    start = time.perf_counter()
    for _ in range(file_bytes // _READ_BYTES):
        os.write(descriptor, data)
    os.fsync(descriptor)
    return time.perf_counter() - start


@contextlib.contextmanager
def _uncached(path: str) -> Any:
    """A descriptor whose reads come from the disk, and the method that ensures it."""
    try:
        descriptor, how = os.open(path, os.O_RDONLY | os.O_DIRECT), "direct"
    except OSError:  # a file system without direct reads
        descriptor, how = os.open(path, os.O_RDONLY), "cache dropped before"
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        yield descriptor, how
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> float:
    with mmap.mmap(-1, _READ_BYTES) as buffer:  # aligned to a page, as direct reads require
        start = time.perf_counter()
        while os.readv(descriptor, [buffer]):
            pass
        return time.perf_counter() - start
