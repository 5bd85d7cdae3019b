"""The choice between CPU and GPU for a loader's decoding: the user's choice, or the one that is measured to be faster.

`painters.py` and `gpu_painters.py` decode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from abreast import users_line
from abreast.device_list import list_nvidia_devices
from abreast.errors import AbreastError, DataError, DeviceError
from abreast.launchers import read_world
from abreast.records.decoding.gpu_pipeline import DaliDevice, gpu, is_installed, not_installed
from abreast.records.format.index import ENCODINGS
from abreast.records.reading.reader import Records
from abreast.stderr import tell

Decoder = Literal["cpu", "gpu", "auto"]

_HINT = 'decoder="cpu" needs no GPU, and "auto" uses a GPU only where one can decode'
_JPEG = ENCODINGS.index("jpg")


_printed: set[str] = set()  # reasons for the CPU that this process has printed


class Choice:
    """The choice of a loader. `decoder` is "cpu" or "gpu", or "auto" until `decide` or `restore` chooses.

    `find` returns the GPU, or raises the reason why no GPU can decode. Raises `DataError` for another word, and for "gpu"
    the errors of `find`.
    """

    def __init__(self, wish: Decoder, find: Callable[[], DaliDevice]) -> None:
        if wish not in get_args(Decoder):
            raise DataError(f"decoder={wish!r} is not allowed", 'give "cpu", "gpu", or "auto" for the faster one')
        self.decoder: Decoder = wish
        self._wish = wish
        self._find = find
        if wish == "gpu":
            find()

    def decide(self, measure: Callable[[Decoder], float], what: str) -> None:
        """Choose the faster one by `measure`, in images per second. Print one line that names `what` and both rates."""
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
        tell(f"{what} is decoded by the {self.decoder.upper()}: {rates}")

    def restore(self, decoder: Any) -> None:
        """Use the decoder of a saved state if the user chose "auto". Otherwise warn if the user's decoder differs from it."""
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
        """Choose the CPU. Print the reason once per process."""
        self.decoder = "cpu"
        if error.message not in _printed:
            _printed.add(error.message)
            tell(f'decoder="auto" takes the CPU: {error}')


def find_gpu(records: Records) -> DaliDevice:
    """The GPU that decodes for this process. Each of several processes on a host has its own GPU, as in training.

    Raises `DeviceError` if there is no GPU, and `DataError` if DALI is missing or the data set has no JPEG for a GPU.
    """
    devices = list_nvidia_devices()
    if not devices:
        raise DeviceError("there is no NVIDIA GPU to decode on", _HINT)
    if not is_installed():
        raise not_installed()
    check_has_jpegs(records)
    return gpu(read_world().local_rank % len(devices))


def check_has_jpegs(records: Records) -> None:
    """Raise `DataError` for a data set without any image that a GPU can decode."""
    tables = [index.samples for _, index in records.shards()]
    if not any(((table["encoding"] == _JPEG) & (table["plain"] == 1)).any() for table in tables):
        found = sorted({ENCODINGS[number] for table in tables for number in set(table["encoding"].tolist())})
        what = f"{records.folder} holds {', '.join(found)}, and no JPEG that a GPU can decode to final pixels"
        raise DataError(what, _HINT)
