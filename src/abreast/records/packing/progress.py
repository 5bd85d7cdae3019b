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
    """`num_done` items of the source are packed or skipped; this packer did `num_now` of them, in `seconds`."""

    num_done: int
    num_now: int
    num_items: int | None
    num_skipped: int
    seconds: float

    @property
    def images_per_second(self) -> float:
        return self.num_now / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The expected time to the end, None if it is not known."""
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
    """A finished data set. This call packed `num_now` of its samples, in `seconds`.

    With `dry_run` nothing was written: `num_samples` images could be packed, in `file_bytes` bytes, and `skipped` has those
    that could not. `skipped_file` has a line for each image that was skipped.
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

    @property
    def skipped(self) -> tuple[Note, ...]:
        return tuple(note for note in self.notes if note.skipped)

    @property
    def images_per_second(self) -> float:
        return self.num_now / self.seconds if self.seconds else 0.0

    @property
    def _size(self) -> str:
        counts = f"{counted(self.num_samples, 'image')} in {counted(self.num_shards, 'shard')}"
        return f"{counts}, {self.file_bytes / 1e6:,.1f} MB"

    def __repr__(self) -> str:
        return f"<Summary of {self.folder}: {self._size}, {len(self.skipped):,} skipped>"

    def _repr_html_(self) -> str:
        facts = {"images": self._size, "packed now": f"{self.num_now:,} in {_clock(self.seconds)}"}
        parts = {f"part {name}": part._size for name, part in self.parts.items()}
        rows = [("skipped" if note.skipped else "packed", note.key, note.text) for note in self.notes]
        return notebook.shown(f"Summary of {self.folder}", facts | parts, ("image", "key", "note"), rows)

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
            lines += _listed(title, notes)
        if self.skipped_file is not None:
            lines.append(f"all that are skipped: {self.skipped_file}")
        return "\n".join(lines)

    def _answer(self) -> str:
        """The text of a dry run, with all that would fail."""
        total = self.num_samples + len(self.skipped)
        size = f"{counted(total, 'image')}, {self.num_samples:,} can be packed: {self.file_bytes / 1e6:,.1f} MB"
        lines = [f"{self.folder}: {size}; nothing is written"]
        lines += _listed("would fail", self.skipped, limit=total)
        lines += _listed("would be packed with a note", tuple(note for note in self.notes if not note.skipped))
        return "\n".join(lines)


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


def _listed(title: str, notes: tuple[Note, ...], limit: int = _SHOWN_NOTES) -> list[str]:
    if not notes:
        return []
    lines = [f"  {note.key}: {note.text}" for note in notes[:limit]]
    more = len(notes) - limit
    return [f"{title}: {len(notes):,}", *lines, *([f"  and {more:,} more"] if more > 0 else [])]


def _clock(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
