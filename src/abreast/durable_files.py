"""The system calls with which abreast changes files that must survive a crash, one method each. Tests replace them.

A durable write uses another name first, syncs the file to the disk, and only then renames it; syncing its folder makes the name
durable.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Files:
    """One method for each call of the operating system."""

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def create(self, path: Path) -> int:
        """The descriptor of a new file. Raises an error if a file or link of that name exists."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """The number of bytes written, which may be less than the length of `data`."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def begin_sync(self, descriptor: int, offset: int, num_bytes: int) -> None:
        """Ask the system to begin writing these bytes to the disk, so that `sync` takes less time. It may ignore this."""
        # After the advice that pages are not needed, Linux begins to write the unwritten ones, and keeps them in memory.
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):
                os.posix_fadvise(descriptor, offset, num_bytes, os.POSIX_FADV_DONTNEED)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync_folder(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview, files: Files) -> None:
    """Write all of the data, in as many calls as the system needs."""
    rest = memoryview(data)
    while rest:
        rest = rest[files.write(descriptor, rest) :]


def make_folders(folder: Path, files: Files) -> None:
    """Make a folder and its missing parents, and sync the name of each to the disk."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    files.make_folder(folder)
    for path in reversed(new):
        files.sync_folder(path.parent)
