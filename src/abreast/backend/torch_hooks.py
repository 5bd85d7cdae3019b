"""Hooks of PyTorch's that a script sets. Those of a model's modules travel with it; others can not do what they do on one device.

Imports torch, `exact` and `errors`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from abreast import exact
from abreast.errors import ModelError

# Where a module keeps its hooks.
OF_MODULES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_WEIGHTS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def num_registered() -> int:
    """How many hooks have been registered in this process, whatever on."""
    return RemovableHandle.next_id


def check_hooks(model: Any) -> None:
    """Refuse hooks on the gradients of weights, each of which would see a replica's part; warn of hooks for all modules."""
    for weight in model.trainable_variables:
        if any(getattr(weight.value, name, None) for name in _OF_WEIGHTS):
            raise ModelError(
                f"{weight.path} has a hook on its gradient, which each device would call with the part of its own rows",
                "clip or scale gradients in the optimizer, or train on one device",
            )
    modules: Any = torch.nn.modules.module
    if any(value for name, value in vars(modules).items() if name.startswith("_global_") and name.endswith("_hooks")):
        exact.warn_once(
            model, "hooks", "hooks for all torch modules run for the rows of the first device: workers do not have them"
        )
