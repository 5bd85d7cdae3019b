"""PyTorch's devices by the names of abreast. Imports torch and Keras."""

from __future__ import annotations

import os

import torch

from abreast.device_list import CPU_DEVICES
from abreast.keras_private.torch import get_device


def device_names() -> tuple[str, ...]:
    """Every device that this process and workers of its own can drive."""
    simulated = os.environ.get(CPU_DEVICES)
    if simulated is None and torch.cuda.is_available():
        return tuple(f"gpu:{index}" for index in range(torch.cuda.device_count()))
    return tuple(f"cpu:{index}" for index in range(int(simulated or 1)))


def here() -> str:
    """This process's own device."""
    return f"gpu:{torch.cuda.current_device()}" if get_device().startswith("cuda") else "cpu:0"
