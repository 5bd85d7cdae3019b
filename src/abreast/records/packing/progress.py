"""The progress of a packer while it works, and its summary at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from abreast import notebook
from abreast.records.format.index import Note
from abreast.units import counted

_EVERY_SECONDS = 0.5
_SHOWN_NOTES = 20


@dataclass(frozen=True)
class Progress:
    """The progress of a packer. `pack(..., progress=...)` gets one at most twice a second. It prints as a line.

    Attributes:
        num_done: number of items of the source that are packed or skipped.
        num_now: number of these that this call packed or skipped.
        num_items: number of items of the source, None if it is not known.
        num_skipped: number of items that this call skipped.
        seconds: seconds since this call began.

    Example:
        >>> from abreast.records import Progress
        >>> progress = Progress(num_done=300, num_now=100, num_items=900, num_skipped=1, seconds=2.0)
        >>> progress.images_per_second, progress.seconds_left
        (50.0, 12.0)
        >>> print(progress)
        300 of 900 images, 50 images/s, 12.0 s left, 1 skipped
    """

    num_done: int
    num_now: int
    num_items: int | None
    num_skipped: int
    seconds: float

    @property
    def images_per_second(self) -> float:
        """Images per second of this call."""
        return self.num_now / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Expected seconds to the end, None if they are not known."""
        if self.num_items is None or not self.num_now:
            return None
        return (self.num_items - self.num_done) / self.images_per_second

    def __str__(self) -> str:
        total = "" if self.num_items is None else f" of {self.num_items:,}"
        left = "" if self.seconds_left is None else f", {_clock(self.seconds_left)} left"
        skipped = f", {self.num_skipped:,} skipped" if self.num_skipped else ""
        return f"{self.num_done:,}{total} images, {self.images_per_second:,.0f} images/s{left}{skipped}"


@dataclass(frozen=True)
class Summary:
    """A finished data set, and the work of this call of `pack`. It prints as a few lines, and is a table in a notebook.

    Attributes:
        folder: the folder of the data set.
        num_samples: number of images in it.
        num_now: number of these that this call packed.
        num_shards: number of shards.
        file_bytes: bytes of all shards.
        seconds: seconds that this call took.
        notes: items that were skipped, and images that could not be packed exactly.
        parts: of a split source, a summary by the name of each part; the counts above are their sums.
        skipped_file: a file with a line for each image that was skipped, or None.
        dry_run: True if nothing was written. Then `num_samples` images could be packed, in about `file_bytes` bytes, and
            `skipped` has those that could not.
        names: by position, the name of each item with a note that this call read: its path if it is a file, else its key.

    Example:
        >>> import numpy as np
        >>> from abreast.records import pack
        >>> images = [np.zeros((8, 8, 3), np.uint8), b"not an image"]
        >>> summary = pack(images, "images.pack", on_error="skip")
        >>> summary
        <Summary of images.pack: 1 image in 1 shard, 0.0 MB, 1 skipped>
        >>> [note.key for note in summary.skipped]
        ['00000001']
        >>> summary.images_per_second > 0
        True
        >>> pack(images, "images.pack.2", dry_run=True)
        <Summary of a dry run for images.pack.2: 1 image in 0 shards, 0.0 MB, 1 skipped>
    """

    folder: Path
    num_samples: int
    num_now: int
    num_shards: int
    file_bytes: int
    seconds: float
    notes: tuple[Note, ...]
    parts: Mapping[str, Summary] = field(default_factory=dict)  # of a split source; the counts above are their sums
    skipped_file: Path | None = None
    dry_run: bool = False
    names: Mapping[int, str] = field(default_factory=dict)

    @property
    def skipped(self) -> tuple[Note, ...]:
        """Notes about the items that are not in the data set, with position, key and reason."""
        return tuple(note for note in self.notes if note.skipped)

    @property
    def images_per_second(self) -> float:
        """Images per second of this call; 0 if all were packed already."""
        return self.num_now / self.seconds if self.seconds else 0.0

    @property
    def _title(self) -> str:
        return f"Summary of {'a dry run for ' if self.dry_run else ''}{self.folder}"

    @property
    def _size(self) -> str:
        counts = f"{counted(self.num_samples, 'image')} in {counted(self.num_shards, 'shard')}"
        return f"{counts}, {self.file_bytes / 1e6:,.1f} MB"

    def __repr__(self) -> str:
        return f"<{self._title}: {self._size}, {len(self.skipped):,} skipped>"

    def _repr_html_(self) -> str:
        facts = {"images": self._size, "packed now": f"{self.num_now:,} in {_clock(self.seconds)}"}
        parts = {f"part {name}": part._size for name, part in self.parts.items()}
        rows = [("skipped" if note.skipped else "packed", self._name(note), note.text) for note in self.notes]
        return notebook.shown(self._title, facts | parts, ("image", "key", "note"), rows)

    def __str__(self) -> str:
        if self.parts:
            return "\n".join(map(str, self.parts.values()))
        if self.dry_run:
            return self._answer()
        if self.num_now:
            speed = f"packed {self.num_now:,} in {_clock(self.seconds)}, {self.images_per_second:,.0f} images/s"
        else:
            speed = "all were packed already"
        lines = [f"{self.folder}: {self._size}", speed]
        for title, notes in (
            ("skipped", self.skipped),
            ("packed with a note", tuple(note for note in self.notes if not note.skipped)),
        ):
            lines += self._listed(title, notes)
        if self.skipped_file is not None:
            lines.append(f"all that are skipped: {self.skipped_file}")
        return "\n".join(lines)

    def _answer(self) -> str:
        """The text of a dry run, with all items that would fail."""
        total = self.num_samples + len(self.skipped)
        size = f"{counted(total, 'image')}, {self.num_samples:,} can be packed: about {self.file_bytes / 1e6:,.1f} MB"
        lines = [f"{self.folder}: {size}; nothing is written"]
        lines += self._listed("would fail", self.skipped, limit=total)
        lines += self._listed("would be packed with a note", tuple(note for note in self.notes if not note.skipped))
        return "\n".join(lines)

    def _name(self, note: Note) -> str:
        return self.names.get(note.position, note.key)

    def _listed(self, title: str, notes: tuple[Note, ...], limit: int = _SHOWN_NOTES) -> list[str]:
        if not notes:
            return []
        lines = [f"  {self._name(note)}: {note.text}" for note in notes[:limit]]
        more = len(notes) - limit
        return [f"{title}: {len(notes):,}", *lines, *([f"  and {more:,} more"] if more > 0 else [])]


def together(folder: Path, parts: Mapping[str, Summary]) -> Summary:
    """One summary of all parts."""
    of = list(parts.values())
    return Summary(
        folder,
        num_samples=sum(part.num_samples for part in of),
        num_now=sum(part.num_now for part in of),
        num_shards=sum(part.num_shards for part in of),
        file_bytes=sum(part.file_bytes for part in of),
        seconds=sum(part.seconds for part in of),
        notes=tuple(note for part in of for note in part.notes),
        parts=parts,
        skipped_file=next((part.skipped_file for part in of if part.skipped_file is not None), None),
        dry_run=any(part.dry_run for part in of),
    )


class Ticker:
    """Counts items, and calls `show` twice a second at most."""

    def __init__(self, show: Callable[[Progress], None] | None, num_items: int | None, num_before: int) -> None:
        self.num_now = 0
        self.num_skipped = 0
        self._show = show
        self._num_items = num_items
        self._num_before = num_before
        self._began = self._shown = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def count(self, skipped: bool) -> None:
        self.num_now += 1
        self.num_skipped += skipped
        if time.monotonic() - self._shown >= _EVERY_SECONDS:
            self.report()

    def report(self) -> None:
        self._shown = time.monotonic()
        if self._show is not None:
            done = self._num_before + self.num_now
            self._show(Progress(done, self.num_now, self._num_items, self.num_skipped, self.seconds))


def _clock(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
