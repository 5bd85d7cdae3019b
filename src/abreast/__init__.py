"""abreast: Keras 3 models train on every GPU of a machine, with TensorFlow, JAX or PyTorch underneath.

The public names. Importing this loads neither Keras nor a framework: these are loaded when a name is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "AbreastError",
    "DataParallel",
    "DeviceTrace",
    "ImageRecords",
    "Timeline",
    "check",
    "devices",
    "diagnose",
    "is_main_process",
    "parallelize",
    "rank",
    "use_cpu_devices",
]

if TYPE_CHECKING:
    from abreast.checking.model import check
    from abreast.doctor.diagnose import diagnose
    from abreast.errors import AbreastError
    from abreast.launchers import is_main_process, rank
    from abreast.parallel import DataParallel, devices, parallelize, use_cpu_devices
    from abreast.records.loading.image_records import ImageRecords
    from abreast.timeline.device_trace import DeviceTrace
    from abreast.timeline.timeline import Timeline

_HOMES = {
    "AbreastError": "abreast.errors",
    "DataParallel": "abreast.parallel",
    "DeviceTrace": "abreast.timeline.device_trace",
    "ImageRecords": "abreast.records.loading.image_records",
    "Timeline": "abreast.timeline.timeline",
    "check": "abreast.checking.model",
    "devices": "abreast.parallel",
    "diagnose": "abreast.doctor.diagnose",
    "is_main_process": "abreast.launchers",
    "parallelize": "abreast.parallel",
    "rank": "abreast.launchers",
    "use_cpu_devices": "abreast.parallel",
}


def _loaded(name: str) -> Any:
    """The public name, imported when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'abreast' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        from abreast.backend.registry import BACKENDS
        from abreast.errors import BackendError
        from abreast.installing import install_command

        if error.name not in BACKENDS:
            raise

        hint = f"{install_command(error.name)}, or set KERAS_BACKEND to a framework that is installed"
        raise BackendError(f"{error.name} is not installed", hint) from None


if not TYPE_CHECKING:  # a type checker that sees it takes every name for one of ours
    __getattr__ = _loaded


def __dir__() -> list[str]:
    return sorted(__all__)
