"""A packer's changes to files, in an order that leaves a known state after a crash at any call.

A file is written under a name that ends in `.part`, synced to the disk, and only then renamed; syncing its folder makes
the name durable.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from abreast.durable_files import Files, write_all
from abreast.errors import DataError

PART = ".part"
_AHEAD_BYTES = 8 << 20


class PartFile:
    """A file that gets its name in `publish`. Until then, the name ends in `.part`."""

    def __init__(self, path: Path, files: Files) -> None:
        self.path = path
        self.size_bytes = 0
        self._begun_bytes = 0  # passed to `begin_sync`
        self._files = files
        self._part = path.with_name(path.name + PART)
        self._descriptor: int | None = files.create(self._part)

    def write(self, data: bytes) -> None:
        assert self._descriptor is not None
        write_all(self._descriptor, data, self._files)
        self.size_bytes += len(data)
        if self.size_bytes - self._begun_bytes >= _AHEAD_BYTES:
            self._files.begin_sync(self._descriptor, self._begun_bytes, self.size_bytes - self._begun_bytes)
            self._begun_bytes = self.size_bytes

    def sync(self) -> None:
        """Wait until the content is on the disk, then close the file."""
        assert self._descriptor is not None
        self._files.sync(self._descriptor)
        self._close()

    def publish(self) -> None:
        """Give the file its name. The name is durable after its folder is synced."""
        self._files.rename(self._part, self.path)

    def abandon(self) -> None:
        """Close and remove the unfinished file. Errors are ignored."""
        with contextlib.suppress(OSError):
            self._close()
        with contextlib.suppress(OSError):
            self._files.remove(self._part)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._files.close(descriptor)


def write_file(path: Path, data: bytes, files: Files) -> None:
    """Put a whole file in place in one step, durably."""
    part = PartFile(path, files)
    try:
        part.write(data)
        part.sync()
        part.publish()
    except BaseException:
        part.abandon()
        raise
    files.sync_folder(path.parent)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`, and remove it at the end. Raises `DataError` if another packer holds it."""
    try:
        descriptor = _lock(path)
    except BlockingIOError:
        hint = "wait until it ends, or pack into another folder"
        raise DataError(f"another packer is writing {path.parent}", hint) from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _lock(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_file(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous holder removed the file between our two calls


def _is_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def write_errors(folder: Path) -> Iterator[None]:
    """Turn an `OSError` of writing into a `DataError` with a hint on how to continue."""
    try:
        yield
    except OSError as error:
        what = f"cannot write {error.filename or folder}: {error.strerror or error}"
        hint = f"fix that and run the same command again: it continues after the last whole shard in {folder}"
        raise DataError(what, hint) from error
