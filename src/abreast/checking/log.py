"""The log of one side on disk: a line of JSON per event, and the values of its arrays in one binary file.

Large arrays are sampled, so that the size of a log is bounded: every k-th value is kept, with the norm of all values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

EVENT_BYTES = 16 << 20
LOG_BYTES = 1 << 30
_LATE_EVENT_BYTES = 256 << 10  # limit for an event after a log is full
_LEAST_VALUES = 16


@dataclass(frozen=True)
class Entry:
    """One array of an event: its values, or a sample of them, and the norm of all values."""

    group: str
    name: str
    shape: tuple[int, ...]
    values: Any
    norm: float
    every: int = 1

    def place(self, position: int) -> tuple[int, ...]:
        """The index of a kept value in the whole array."""
        return tuple(int(each) for each in np.unravel_index(position * self.every, self.shape)) if self.shape else ()


@dataclass(frozen=True)
class Event:
    """One event of a script: the call and its step, fingerprints of the batch, and the arrays after the event."""

    kind: str
    call: str
    step: int
    batch: str | None
    rows: str | None
    entries: tuple[Entry, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        return self.kind, self.call, self.step


class LogWriter:
    """Adds events to a log. Arrays are sampled if an event is too large, and more coarsely after the log is full."""

    def __init__(self, folder: Path) -> None:
        self._lines = (folder / "events.jsonl").open("w")
        self._values = (folder / "values.bin").open("wb")

    def add(
        self,
        kind: str,
        call: str,
        arrays: Mapping[tuple[str, str], Any],
        *,
        step: int = 0,
        batch: str | None = None,
        rows: str | None = None,
    ) -> None:
        size = sum(array.nbytes for array in arrays.values())
        room = EVENT_BYTES if self._values.tell() < LOG_BYTES else _LATE_EVENT_BYTES
        share = min(1.0, room / max(size, 1))
        entries = [self._keep(group, name, array, share) for (group, name), array in arrays.items()]
        line = {"kind": kind, "call": call, "step": step, "batch": batch, "rows": rows, "entries": entries}
        self._lines.write(json.dumps(line) + "\n")
        self._lines.flush()
        self._values.flush()

    def _keep(self, group: str, name: str, array: Any, share: float) -> dict[str, Any]:
        flat = array.reshape(-1)
        every = 1 if share == 1.0 else -(-flat.size // max(_LEAST_VALUES, int(flat.size * share)))
        kept = np.ascontiguousarray(flat[::every])
        place = self._values.tell()
        self._values.write(kept.tobytes())
        norm = float(np.linalg.norm(flat.astype("float64")))
        of = {"at": place, "size": kept.size, "dtype": str(kept.dtype), "every": every, "norm": norm}
        return {"group": group, "name": name, "shape": array.shape, **of}

    def close(self) -> None:
        self._lines.close()
        self._values.close()


def read(folder: Path) -> list[Event]:
    """All events of a log. Their values stay on disk until they are used."""
    path = folder / "events.jsonl"
    if not path.exists():
        return []
    values = np.memmap(folder / "values.bin", "uint8", "r") if (folder / "values.bin").stat().st_size else b""
    return [_event(json.loads(line), values) for line in path.read_text().splitlines()]


def _event(line: dict[str, Any], values: Any) -> Event:
    entries = tuple(_entry(each, values) for each in line.pop("entries"))
    return Event(**line, entries=entries)


def _entry(line: dict[str, Any], values: Any) -> Entry:
    kept = np.frombuffer(values, line["dtype"], line["size"], line["at"])
    return Entry(line["group"], line["name"], tuple(line["shape"]), kept, line["norm"], line["every"])


def plain_array(value: Any) -> Any:
    """The value as an array of a type that can be written and compared: bfloat16 and similar types become float32."""
    array = np.asarray(value)
    return array.astype("float32") if array.dtype.kind not in "fiub" else array
