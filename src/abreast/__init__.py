"""abreast: Keras 3 models train on every GPU of a machine, with TensorFlow, JAX or PyTorch underneath.

This module has the public names. Importing it loads neither Keras nor a framework: these are loaded when a name is first used.
If Keras is imported later, it uses a framework that is installed (`backend_choice.py`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from abreast.backend_choice import watch_keras

__version__ = "0.1.0"
__all__ = [
    "AbreastError",
    "Checkpoint",
    "DataParallel",
    "DeviceTrace",
    "ImageRecords",
    "Timeline",
    "check",
    "devices",
    "diagnose",
    "is_main_process",
    "parallelize",
    "predict_on_rank_0",
    "rank",
    "use_cpu_devices",
]

if TYPE_CHECKING:
    from abreast.checking.model import check
    from abreast.checkpoints.callback import Checkpoint
    from abreast.doctor.diagnose import diagnose
    from abreast.errors import AbreastError
    from abreast.launchers.known import is_main_process, rank
    from abreast.parallel import DataParallel, devices, parallelize, use_cpu_devices
    from abreast.records.loading.image_records import ImageRecords
    from abreast.timeline.device_trace import DeviceTrace
    from abreast.timeline.timeline import Timeline
    from abreast.together.predictions import predict_on_rank_0

_HOMES = {
    "AbreastError": "abreast.errors",
    "Checkpoint": "abreast.checkpoints.callback",
    "DataParallel": "abreast.parallel",
    "DeviceTrace": "abreast.timeline.device_trace",
    "ImageRecords": "abreast.records.loading.image_records",
    "Timeline": "abreast.timeline.timeline",
    "check": "abreast.checking.model",
    "devices": "abreast.parallel",
    "diagnose": "abreast.doctor.diagnose",
    "is_main_process": "abreast.launchers.known",
    "parallelize": "abreast.parallel",
    "predict_on_rank_0": "abreast.together.predictions",
    "rank": "abreast.launchers.known",
    "use_cpu_devices": "abreast.parallel",
}


def _loaded(name: str) -> Any:
    """The public name, imported when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'abreast' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


if not TYPE_CHECKING:  # with this function, a type checker would accept every name
    __getattr__ = _loaded


def __dir__() -> list[str]:
    return sorted(__all__)


watch_keras()
