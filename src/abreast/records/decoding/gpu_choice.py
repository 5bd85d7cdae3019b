"""Whether the CPU or a GPU decodes for a loader: as its user says, or which is found to be faster.

How either decodes is in `painters.py` and `gpu_painters.py`. Imports `assembly`, `gpu_pipeline`, `index`, `reader`,
`hardware`, `world` and `errors`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from abreast import users_line
from abreast.errors import AbreastError, DataError, DeviceError
from abreast.hardware import list_nvidia_devices
from abreast.launchers import read_world
from abreast.records.decoding.gpu_pipeline import Device, gpu, is_installed, not_installed
from abreast.records.format.index import ENCODINGS
from abreast.records.reading.reader import Records

_HINT = 'decoder="cpu" does without one, and "auto" finds out by itself'
_JPEG = ENCODINGS.index("jpg")


_told: set[str] = set()  # why it was the CPU, in this process


class Choice:
    """`decoder` is "cpu" or "gpu", and "auto" for as long as nobody needs to know.

    `find` gives the GPU, or raises why none can decode. Raises `DataError` for other words, and, for "gpu", as `find` does.
    """

    def __init__(self, wish: str, find: Callable[[], Device]) -> None:
        if wish not in ("cpu", "gpu", "auto"):
            raise DataError(f"decoder={wish!r}", 'give "cpu", "gpu", or "auto" for the faster one')
        self.decoder = self._wish = wish
        self._find = find
        if wish == "gpu":
            find()

    def decide(self, measure: Callable[[str], float], what: str) -> None:
        """`measure` the images per second of both, and say in a line what came of it for `what`."""
        try:
            self._find()
        except AbreastError as error:
            self._cpu_for(error)
            return
        cpu = measure("cpu")
        try:
            on_gpu = measure("gpu")
        except DeviceError as error:
            self._cpu_for(error)
            return
        self.decoder = "gpu" if on_gpu > cpu else "cpu"
        rates = f"{on_gpu:,.0f} images/s on the GPU, {cpu:,.0f} on the CPU"
        print(f"abreast: {what} is decoded by the {self.decoder.upper()}: {rates}", file=sys.stderr, flush=True)

    def restore(self, decoder: Any) -> None:
        """Go on with a saved state's decoder where the user left it open; else warn where the user's is another one."""
        if decoder not in ("cpu", "gpu") or decoder == self.decoder:
            return
        if self._wish != "auto":
            text = f"the state was made with decoder={decoder!r}, and this loader has {self.decoder!r}"
            users_line.warn(f"{text}: pixels differ by rounding")
            return
        if decoder == "gpu":
            self._find()
        self.decoder = decoder

    def _cpu_for(self, error: AbreastError) -> None:
        """Take the CPU, and say why, once in a process."""
        self.decoder = "cpu"
        if error.message not in _told:
            _told.add(error.message)
            hint = f"\nhint: {error.hint}" if error.hint else ""
            print(f'abreast: decoder="auto" takes the CPU: {error.message}{hint}', file=sys.stderr, flush=True)


def find_gpu(records: Records) -> Device:
    """The GPU that decodes for this process: of several on a host, each has its own, as for training.

    Raises `DeviceError` where there is none, and `DataError` where DALI is missing or there is nothing for it to do.
    """
    devices = list_nvidia_devices()
    if not devices:
        raise DeviceError("there is no NVIDIA GPU that could decode", _HINT)
    if not is_installed():
        raise not_installed()
    check_has_jpegs(records)
    return gpu(read_world().local_rank % len(devices))


def check_has_jpegs(records: Records) -> None:
    """Raise `DataError` for a data set of which a GPU can decode nothing."""
    tables = [index.samples for _, index in records.shards()]
    if not any(((table["encoding"] == _JPEG) & (table["plain"] == 1)).any() for table in tables):
        found = sorted({ENCODINGS[number] for table in tables for number in set(table["encoding"].tolist())})
        what = f"{records.folder} holds {', '.join(found)}, and no JPEG that a GPU can decode as it stands"
        raise DataError(what, _HINT)
