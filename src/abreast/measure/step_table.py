"""One compact row of numbers per training step, for any number of steps. Imports `step_parts` and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from abreast.measure.step_parts import PARTS

# Seconds are float32: seven digits of a step, in half of the memory.
STEP = np.dtype(
    [
        ("epoch", "i4"),
        ("step", "i4"),  # of the epoch; with `steps_per_execution`, the first of several
        ("batches", "i4"),
        ("rows", "i8"),  # 0: not told
        ("bytes", "i8"),  # of the batch, on the host
        ("begin", "f8"),  # seconds since the fit began
        ("wall", "f4"),
        *((name, "f4") for name in PARTS),
        ("call", "f4"),  # in the step function, waits left out
        ("read", "f4"),  # by the reader, for this step's batches
        ("put", "f4"),  # by the stager, for this step's batches
    ]
)


class StepTable:
    """Rows of `STEP`, and beside each the seconds that each device computed."""

    def __init__(self, num_devices: int) -> None:
        self._rows = np.zeros(256, STEP)
        self._devices = np.zeros((256, num_devices), "f4")
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, row: tuple[Any, ...], device_seconds: list[float]) -> None:
        if self._count == len(self._rows):
            # New arrays: whoever holds a view of the old ones keeps it.
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._devices = np.concatenate([self._devices, np.zeros_like(self._devices)])
        self._rows[self._count] = row
        self._devices[self._count] = device_seconds
        self._count += 1

    @property
    def rows(self) -> np.ndarray[Any, Any]:
        """A read-only view of what is there."""
        return _read_only(self._rows[: self._count])

    @property
    def device_seconds(self) -> np.ndarray[Any, Any]:
        """Steps by devices; not a number where a device does not tell."""
        return _read_only(self._devices[: self._count])


def _read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    view = array.view()
    view.flags.writeable = False
    return view
