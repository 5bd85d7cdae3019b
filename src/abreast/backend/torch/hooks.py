"""Hooks and modes of PyTorch that a script sets. Hooks of a model's modules are sent with it; no others can be."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack as _function_modes
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as _dispatch_modes
from torch.utils.hooks import RemovableHandle

from abreast import exact
from abreast.errors import ModelError

# Attributes in which a module keeps its hooks.
OF_MODULES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_WEIGHTS = ("_backward_hooks", "_post_accumulate_grad_hooks")


class Hooks:
    """The hooks of a model's modules and weights, and the hooks for all modules, when this object was made."""

    def __init__(self, model: Any) -> None:
        self._count, self._names = RemovableHandle.next_id, _names(model)

    def have_changed(self, model: Any) -> bool:
        """Whether the script has set hooks since then. They are compared only if PyTorch's count of registered hooks grew."""
        if self._count == RemovableHandle.next_id:
            return False
        self._count = RemovableHandle.next_id
        return _names(model) != self._names


def _names(model: Any) -> list[Any]:
    everyone = {id(module): module for layer in model._flatten_layers() for module in layer.modules()}
    modules = [tuple(getattr(module, name)) for module in everyone.values() for name in OF_MODULES]
    weights = [tuple(getattr(weight, name, None) or ()) for weight in model.parameters() for name in _OF_WEIGHTS]
    return [modules, weights, [*map(tuple, _for_all())]]


def _for_all() -> list[Any]:
    modules: Any = torch.nn.modules.module
    return [v for name, v in sorted(vars(modules).items()) if name.startswith("_global_") and name.endswith("_hooks")]


def announce_modes(model: Any) -> None:
    """Warn of hooks for saved tensors and of modes of torch that the script entered.

    The mode of `torch.set_default_device` only chooses a device.
    """
    if torch._C._autograd._top_saved_tensors_default_hooks(True):
        exact.warn_once(
            model,
            "saved tensors",
            "saved_tensors_hooks act on the rows of the first device only: worker processes do not have the script's hooks for "
            "saved tensors",
        )
    if not (torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack()):
        return
    modes = [each for each in (*_function_modes(), *_dispatch_modes()) if not isinstance(each, DeviceContext)]
    if modes:
        names = ", ".join(sorted({type(each).__name__ for each in modes}))
        exact.warn_once(
            model,
            "modes",
            f"{names} acts on the rows of the first device only: worker processes do not have the script's modes of torch",
        )


def check_hooks(model: Any) -> None:
    """Refuse hooks on gradients of weights, which would see only one replica's part; warn of hooks for all modules."""
    for weight in model.trainable_variables:
        if any(getattr(weight.value, name, None) for name in _OF_WEIGHTS):
            raise ModelError(
                f"{weight.path} has a hook on its gradient, which each device would call with the gradient of its own rows",
                "clip or scale gradients in the optimizer, or train on one device",
            )
    if any(_for_all()):
        exact.warn_once(
            model,
            "hooks",
            "hooks for all torch modules run only for the rows of the first device: workers do not have them",
        )
