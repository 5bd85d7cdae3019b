"""Keras's PyTorch trainer and tensors. Imports PyTorch: for the PyTorch backend only.

`TorchTrainer` is named `Trainer` in 3.16. `core` is the module that holds `DEFAULT_DEVICE`: `backend.torch.core` up to 3.15,
`backend.torch.ops.core` in 3.16. Keras takes `steps_per_execution` on PyTorch from 3.16 on (`TAKES_SEVERAL_STEPS`).
"""

from __future__ import annotations

import importlib
from typing import Any

from keras.src.backend.torch import trainer
from keras.src.backend.torch.trainer import TorchEpochIterator
from keras.src.utils.torch_utils import TorchModuleWrapper

__all__ = [
    "TAKES_SEVERAL_STEPS",
    "TorchEpochIterator",
    "TorchModuleWrapper",
    "TorchTrainer",
    "convert_to_tensor",
    "core",
    "get_device",
]

try:
    _core = importlib.import_module("keras.src.backend.torch.ops.core")
except ModuleNotFoundError:
    _core = importlib.import_module("keras.src.backend.torch.core")
TAKES_SEVERAL_STEPS = not hasattr(trainer, "TorchTrainer")
TorchTrainer: Any = getattr(trainer, "TorchTrainer", None) or trainer.Trainer
core: Any = _core
convert_to_tensor: Any = core.convert_to_tensor
get_device: Any = core.get_device
