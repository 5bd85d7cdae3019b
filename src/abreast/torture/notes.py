"""Notes from the script's process for the disturbing process: lines of JSON in a file, which survive a SIGKILL."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class NoteWriter:
    """Appends notes. Each is written by one system call, so that none is lost with the process."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def add(self, what: str, value: Any = None) -> None:
        line = json.dumps({"what": what, "value": value, "seconds": time.monotonic()})
        os.write(self._descriptor, line.encode() + b"\n")


@dataclass(frozen=True)
class Note:
    what: str
    value: Any
    seconds: float  # of the monotonic clock


def read_notes(path: Path) -> list[Note]:
    """All whole notes so far."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [Note(**json.loads(line)) for line in lines]
