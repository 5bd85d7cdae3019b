"""Keras's own data parallelism on PyTorch, kept off the models that abreast trains and off the process groups that it makes.

Since 3.16, Keras wraps a model in DistributedDataParallel and sums its metrics over all ranks wherever torch.distributed is
initialized. A placed model would then be averaged and summed twice. In the caller's process of a team, any other model would
wait for workers that do not have it, and a `keras.distribution` would be one over several processes. If the user initialized
torch.distributed, Keras treats other models as it does without abreast. Older Keras does none of this. Imports Keras and
`own_group`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch.distributed as dist

from abreast import keras_distribution
from abreast.backend.torch import own_group
from abreast.keras_private import distribution
from abreast.keras_private.data_adapters import fix_start_method
from abreast.keras_private.torch import TorchTrainer
from abreast.keras_private.trainers import BaseTrainer

_placed: WeakSet[Any] = WeakSet()


@functools.cache
def install() -> None:
    """Replace Keras's methods by these, if it has them. Runs once per process."""
    if not hasattr(TorchTrainer, "_initialize_ddp"):
        return
    fix_start_method()
    TorchTrainer._initialize_ddp = _unless_ours(TorchTrainer._initialize_ddp)
    TorchTrainer.get_metrics_result = _without_other_ranks(TorchTrainer.get_metrics_result)
    of_torch: Any = distribution.module.distribution_lib
    of_torch.num_processes = _not_those_of_a_team(of_torch.num_processes)


def keep_off(model: Any) -> None:
    """Keep Keras's data parallelism off a model, also if Keras has wrapped it before.

    Raises `ModelError` if a `keras.distribution` is set: Keras's data adapters would cut its batches, too.
    """
    keras_distribution.refuse_current()
    if getattr(model, "ddp_model", None) is not None:
        object.__setattr__(model, "ddp_model", None)
    _placed.add(model)


def _unless_ours(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def initialize_ddp(model: Any) -> None:
        _placed.discard(model)  # Keras makes its own step function, so the model is no longer placed
        if not own_group.exists():
            plain(model)

    return initialize_ddp


def _without_other_ranks(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def get_metrics_result(model: Any) -> Any:
        if dist.is_initialized() and (own_group.exists() or model in _placed):
            return BaseTrainer.get_metrics_result(model)
        return plain(model)

    return get_metrics_result


def _not_those_of_a_team(plain: Callable[[], int]) -> Callable[[], int]:
    @functools.wraps(plain)
    def num_processes() -> int:
        return 1 if own_group.exists() else plain()

    return num_processes
