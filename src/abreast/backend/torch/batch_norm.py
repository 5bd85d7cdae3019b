"""Torch's own batch normalization inside a replica's step: over the rows of all replicas, as `exact` does for Keras's layer.

Modules inside `keras.layers.TorchModuleWrapper` use it. With `batch_norm="local"` torch's own function runs, except if a replica
has one value per channel, which torch refuses. Not here: the buffers of modules (`buffers.py`).
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from abreast import exact
from abreast.backend.torch import own_group

_functional_module: Any = torch.nn.functional
_synchronized: Any = torch.nn.SyncBatchNorm
_plain_functional = _functional_module.batch_norm
_plain_verify = _functional_module._verify_batch_size
_plain_operation: Any = torch.batch_norm
_plain_sync = _synchronized.forward


@functools.cache
def install() -> None:
    """Replace torch's functions by these; outside a replica's step they behave like torch's own. Runs once per process."""
    _functional_module.batch_norm, torch.batch_norm = _functional, _operation
    _functional_module._verify_batch_size = _verify
    _synchronized.forward = _sync
    _allow_scripts()


def _allow_scripts() -> None:
    """Let `torch.jit.script` compile torch's own functions in place of these."""
    for ours, plain in _scripted().items():
        vars(ours).update(__script_if_tracing_wrapper=True, __original_fn=plain)
        ours.__name__ = plain.__name__
    torch.jit._builtins._register_builtin(_operation, "aten::batch_norm")


def _scripted() -> dict[Any, Any]:
    """Torch's function for each of these."""
    return {_functional: _plain_functional, _verify: _plain_verify}


@functools.cache
def allow_tracing() -> None:
    """Let `torch.compile` trace these functions. By their names it would take them for torch's own, and not look inside.

    It also follows the marks that `torch.jit.script` reads. Scripts are therefore made now, and the marks go.
    """
    for ours, plain in _scripted().items():
        torch.jit._state._set_jit_function_cache(ours, torch.jit.script(plain))
        del vars(ours)["__script_if_tracing_wrapper"], vars(ours)["__original_fn"]
    rules: Any = torch._dynamo.trace_rules.get_torch_obj_rule_map()
    for ours, plain in ((_functional, _plain_functional), (_operation, _plain_operation)):
        if ours in rules:
            rules[plain] = rules.pop(ours)


def _sync(module: Any, inputs: Any) -> Any:
    plain = not exact.is_inside() and not own_group.exists() and not exact.is_dry_run()
    return _plain_sync(module, inputs) if plain else _BatchNorm.forward(module, inputs)


def _verify(size: Any) -> None:
    """Torch's check of the batch size, over the rows of all replicas: a replica with one row may be one of many."""
    running = exact.current()
    if not exact.is_dry_run() and (running is None or running.total_rows == 1):
        _plain_verify(size)


def _functional(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if not training or exact.current() is None or eps <= 0:
        return _plain_functional(input, running_mean, running_var, weight, bias, training, momentum, eps)
    _verify(input.size())
    return _operation(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def _operation(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    if training and exact.is_dry_run():  # it looks for other code that relates rows
        mean = input.new_zeros(input.shape[1]) if running_mean is None else running_mean
        variance = input.new_ones(input.shape[1]) if running_var is None else running_var
        return _plain_operation(input, weight, bias, mean, variance, False, momentum, eps, cudnn_enabled)
    running = exact.current() if training else None
    num_values = input.numel() // max(1, input.shape[1])
    if running is None or not (running.global_batch_norm or num_values == 1):
        return _plain_operation(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled)
    x = input.float() if input.dtype.itemsize < 4 else input
    mean, variance, total = _moments(running, x, num_values)
    with torch.no_grad():
        unbiased = variance * (total / (total - 1).clamp(min=1))
        for moving, now in ((running_mean, mean), (running_var, unbiased)):
            if moving is not None:
                moving.mul_(1 - momentum).add_(now.to(moving.dtype), alpha=momentum)
    shape = (1, -1, *[1] * (x.dim() - 2))
    output = (x - mean.view(shape)) * torch.rsqrt(variance + eps).view(shape)
    output = output if weight is None else output * weight.view(shape)
    output = output if bias is None else output + bias.view(shape)
    return output.to(input.dtype)


def _moments(running: exact.Replica, x: torch.Tensor, num_values: int) -> tuple[Any, Any, Any]:
    """Mean, biased variance and number of values of each channel (Chan's combination of the replicas' parts)."""
    axes = [0, *range(2, x.dim())]
    mean = x.sum(axes) / max(1, num_values)
    variance = (x - mean.view(1, -1, *[1] * (x.dim() - 2))).square().sum(axes) / max(1, num_values)
    counts = torch.full_like(mean, num_values if running.rows or not running.global_batch_norm else 0)
    parts = torch.stack([mean, variance, counts])
    parts = exact.exchange(running, running.link.all_stack, parts) if running.global_batch_norm else parts[None]
    total = parts[:, 2].sum(0)
    shares = parts[:, 2] / total
    mean = (shares * parts[:, 0]).sum(0)
    return mean, (shares * (parts[:, 1] + (parts[:, 0] - mean).square())).sum(0), total.detach()
