"""All calls on files of checkpoints: calls that change files, which tests record and replay, and calls that read."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from abreast.durable_files import Files
from abreast.errors import CheckpointError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class CheckpointFiles(Files):
    """The calls that a writer and `prune` make."""

    def make_new_folder(self, path: Path) -> None:
        path.mkdir()

    def remove_folder(self, path: Path) -> None:
        path.rmdir()

    def free_bytes(self, folder: Path) -> int:
        """The bytes that this user may still write to the file system of a folder."""
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder, sorted by name."""
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)


def is_folder(path: Path) -> bool:
    """True for a folder itself, and False for a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[int, int]]:
    """The descriptor of a regular file, and its length. Raises `OSError` for links, pipes and devices."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        yield descriptor, found.st_size
    finally:
        os.close(descriptor)


def read_into(descriptor: int, buffer: memoryview) -> int:
    """Read into a buffer up to its length; returns the number of bytes, which is smaller only at the end of the file."""
    filled = 0
    while filled < len(buffer):
        count = os.readv(descriptor, [buffer[filled:]])
        if count == 0:
            break
        filled += count
    return filled


@contextlib.contextmanager
def write_errors(folder: Path, needed_bytes: int | None = None, doing: str = "write a checkpoint to") -> Iterator[None]:
    """Turn an `OSError` of writing into a `CheckpointError`, which states the bytes needed if there is no room."""
    try:
        yield
    except OSError as error:
        what = f"cannot {doing} {folder}: {error.strerror or error}"
        if error.filename is not None and str(error.filename) != str(folder):
            what += f" ({error.filename})"
        raise CheckpointError(what, _hint(error, needed_bytes)) from error


def _hint(error: OSError, needed_bytes: int | None) -> str:
    kept = "the checkpoints that were there are untouched"
    if error.errno in _NO_ROOM and needed_bytes is not None:
        return f"a checkpoint needs {needed_bytes:,} bytes: make room, or name a folder on another disk; {kept}"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"name a folder that you may write to; {kept}"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return f"name a folder, or a new one; {kept}"
    return kept
