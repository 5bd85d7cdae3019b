"""A run as JSON lines: a header with versions and the machine, then a line per step and per epoch.

Each line is written as a whole, and all that are there are written several times a second, so that a process that is
killed leaves what it did until then. Imports `accounts`, `step_parts`,
`hardware` and `errors`.
"""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from abreast.errors import BackendError
from abreast.hardware import list_devices, num_cores
from abreast.measure.accounts import EpochRecord, StepRecord
from abreast.measure.step_parts import PARTS

FORMAT = "abreast timeline 1"
_PACKAGES = ("abreast", "keras", "jax", "tensorflow", "torch", "numpy")


class StepFile:
    """`path` is begun anew by the first fit that is written to it, and continued by the next."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._is_begun = False
        self._file: TextIO | None = None

    def open(self, header: dict[str, Any]) -> None:
        """Begin a fit. Raises `BackendError` when the file cannot be written."""
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

    def write(self, records: list[StepRecord | EpochRecord], begin_ns: int) -> None:
        if self._file is not None:
            self._file.write("".join(_line(record, begin_ns) for record in records))
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def machine_facts() -> dict[str, Any]:
    """What a reader needs to know to compare two runs."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    device = list_devices()[0]
    machine = {"system": f"{platform.system()} {platform.machine()}", "device": device.model, "cores": num_cores()}
    return {"began": datetime.now(UTC).isoformat(timespec="milliseconds"), "versions": versions, "machine": machine}


def _line(record: StepRecord | EpochRecord, begin_ns: int) -> str:
    if isinstance(record, EpochRecord):
        return (
            f'{{"event": "epoch", "epoch": {record.epoch}, "begin_seconds": {(record.start - begin_ns) / 1e9:.6f}, '
            f'"seconds": {(record.end - record.start) / 1e9:.6f}, "validation_seconds": {record.validation / 1e9:.6f}}}\n'
        )
    window = record.window
    parts = ", ".join(f'"{name}": {part / 1e9:.9f}' for name, part in zip(PARTS, record.parts, strict=True))
    return (
        f'{{"event": "step", "epoch": {window.epoch}, "step": {window.first}, '
        f'"batches": {window.batches}, "rows": {record.rows}, "bytes": {record.num_bytes}, '
        f'"begin_seconds": {(window.start - begin_ns) / 1e9:.6f}, "wall_seconds": {sum(record.parts) / 1e9:.9f}, '
        f'"seconds": {{{parts}}}, "call_seconds": {record.call_seconds:.9f}, '
        f'"read_seconds": {record.read_seconds:.9f}, "put_seconds": {record.put_seconds:.9f}}}\n'
    )
