"""One compact row of numbers per training step, for any number of steps.

A new column is an entry of `STEP` here, a value in `accounts.py`, and a field of the file's format in `step_file.py`.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.timeline.step_parts import PARTS

STEP = np.dtype(
    [
        ("epoch", "i4"),
        ("step", "i4"),  # in the epoch; with `steps_per_execution`, the first of several
        ("batches", "i4"),
        ("rows", "i8"),  # 0: unknown
        ("bytes", "i8"),  # of the batch, on the host
        ("begin", "f8"),  # seconds since the fit began
        ("wall", "f8"),
        *((name, "f8") for name in PARTS),
        ("call", "f8"),  # in the step function, without waits
        ("read", "f8"),  # by the reader, for this step's batches
        ("put", "f8"),  # by the stager, for this step's batches
    ]
)
_NAMES: tuple[str, ...] = STEP.names or ()
_UNITS = np.array([1e9 if STEP[name].kind == "f" else 1 for name in _NAMES])
Numbers = npt.NDArray[np.int64]  # steps x fields of `STEP`, with nanoseconds in place of `STEP`'s seconds
NO_STEPS: Numbers = np.empty((0, len(_NAMES)), np.int64)


class StepTable:
    """Rows of `STEP`, and the seconds that each device computed in each step."""

    # Python's arrays, which can grow: rows are added every second.

    def __init__(self, num_devices: int) -> None:
        self._num_devices = num_devices
        self._values = array("d")
        self._devices = array("f")

    def __len__(self) -> int:
        return len(self._values) // len(_NAMES)

    def append(self, numbers: Numbers, device_ns: npt.NDArray[np.int64]) -> None:
        self._devices.frombytes((device_ns / 1e9).astype("f4").tobytes())
        self._values.frombytes((numbers / _UNITS).tobytes())

    def rows(self, first: int = 0, end: int | None = None) -> np.ndarray[Any, Any]:
        """A copy of the rows between two indices, of type `STEP`."""
        width = len(_NAMES)
        values = np.array(self._values[first * width : None if end is None else end * width]).reshape(-1, width)
        found = np.empty(len(values), STEP)
        for index, name in enumerate(_NAMES):
            found[name] = values[:, index]
        return found

    @property
    def device_seconds(self) -> np.ndarray[Any, Any]:
        """Seconds that each device computed: steps x devices."""
        return np.array(self._devices[: len(self) * self._num_devices]).reshape(len(self), self._num_devices)
