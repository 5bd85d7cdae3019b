"""The file beside a data set that lists the skipped images: on each line the path or key, a tab, and the reason."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from abreast.records.format.keys import printable
from abreast.records.format.manifest import MANIFEST, shard_name
from abreast.stderr import tell

_BEGUN = (MANIFEST, f"{shard_name(0)}.index")  # without a shard, a packer reads all images again


def skipped_path(folder: Path) -> Path:
    """The path of the list: `photos.pack.skipped.txt` for `photos.pack`."""
    whole = Path(os.path.abspath(folder))
    return whole.parent / f"{whole.name}.skipped.txt"


class SkippedFile:
    """The list of skipped images. Each line is written at once, so it survives a stop. A continued packer repeats no line.

    It is made before the packer begins, so that it knows whether the folder has a shard or a finished data set. `stops`: the
    packer stops at such an image, and only removes the file of an earlier data set.
    """

    def __init__(self, folder: Path, stops: bool) -> None:
        self.path, self.stops = skipped_path(folder), stops
        self._goes_on = False
        with contextlib.suppress(OSError):  # raised again, by name, when the packer begins
            self._goes_on = any(any(folder.glob(f"{part}{name}")) for part in ("", "*/") for name in _BEGUN)
        self._lines: set[str] | None = None
        self._fails = False

    def add(self, name: str, reason: str) -> None:
        line = f"{printable(name)}\t{printable(reason)}\n"
        if self._lines is None:
            self._lines = self._known()
        if line not in self._lines:
            self._lines.add(line)
            self._append(line)

    def remove_if_old(self) -> None:
        """Remove the file of an earlier data set, if this one has skipped nothing."""
        if self._lines is None and not self._goes_on:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _known(self) -> set[str]:
        """The lines of the packer that this one continues; a new data set begins a new file."""
        try:
            if self._goes_on and self.path.exists():
                return set(self.path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True))
            self.path.unlink(missing_ok=True)
        except OSError:
            pass  # reported when the first line is written
        return set()

    def _append(self, line: str) -> None:
        if self._fails:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            self._fails = True
            tell(f"cannot write {self.path}: {error.strerror}; the summary lists what is skipped")
