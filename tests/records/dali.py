"""DALI with all its operators on the CPU, where it stands in for a GPU: the same pipeline but for the device's name."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from abreast.hardware import Device as Found
from abreast.records import gpu_choice
from abreast.records.gpu_pipeline import Device

ON_CPU = Device("cpu", "cpu", None)


def is_installed() -> bool:
    try:
        return importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        return False


needs_dali = [
    pytest.mark.full,
    pytest.mark.skipif(not is_installed(), reason='nvidia.dali is not installed: pip install "abreast[dali]"'),
]


def stand_in(patch: pytest.MonkeyPatch, device: Any = ON_CPU) -> None:
    """Let there be a GPU, and let DALI use `device` in its place."""
    patch.setattr(gpu_choice, "list_nvidia_devices", lambda: (Found("gpu:0", "gpu", 0, "a CPU"),))
    patch.setattr(gpu_choice, "is_installed", lambda: True)
    patch.setattr(gpu_choice, "gpu", lambda number: device)
