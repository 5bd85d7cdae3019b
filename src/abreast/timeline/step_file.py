"""A run as JSON lines: a header with versions and the machine, then one line per step and per epoch.

Only whole lines are written, and they are flushed every second, so that a process that is killed loses at most its last
seconds.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from abreast import provenance
from abreast.cpu import num_cores
from abreast.device_list import list_devices
from abreast.errors import BackendError
from abreast.timeline.step_parts import PARTS
from abreast.timeline.step_table import Numbers
from abreast.timeline.windows import EpochRecord

FORMAT = "abreast timeline 1"


class StepFile:
    """The file `path`. The first fit overwrites it; later fits are appended."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._is_begun = False
        self._file: TextIO | None = None

    def open(self, header: dict[str, Any]) -> None:
        """Write the header of a fit. Raises `BackendError` if the file cannot be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a" if self._is_begun else "w", encoding="utf-8")
            self._file.write(json.dumps({"format": FORMAT, **header, **machine_facts()}, allow_nan=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise BackendError(
                f"cannot write the timeline: {error}", "give a path in a folder that you may write"
            ) from error
        self._is_begun = True

    def write(self, records: list[Numbers | EpochRecord], begin_ns: int) -> None:
        if self._file is not None:
            self._file.write("".join(_lines(record, begin_ns) for record in records))
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def machine_facts() -> dict[str, Any]:
    """Date, versions and machine: the facts needed to compare two runs."""
    device = list_devices()[0]
    machine = {"system": provenance.system(), "device": device.model, "cores": num_cores()}
    return {
        "began": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "versions": provenance.versions(),
        "machine": machine,
    }


def _lines(record: Numbers | EpochRecord, begin_ns: int) -> str:
    if isinstance(record, EpochRecord):
        seconds, validation = (record.end - record.start) / 1e9, record.validation / 1e9
        return (
            f'{{"event": "epoch", "epoch": {record.epoch}, "begin_seconds": {(record.start - begin_ns) / 1e9:.6f}, '
            f'"seconds": {seconds:.6f}, "validation_seconds": {validation:.6f}}}\n'
        )
    return _STEP * len(record) % tuple(record.ravel().tolist())


_STEP = (
    '{"event": "step", "epoch": %d, "step": %d, "batches": %d, "rows": %d, "bytes": %d, "begin_seconds": %de-9, '
    '"wall_seconds": %de-9, "seconds": {'
    + ", ".join(f'"{name}": %de-9' for name in PARTS)
    + '}, "call_seconds": %de-9, "read_seconds": %de-9, "put_seconds": %de-9}\n'
)
