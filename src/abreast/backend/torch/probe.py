"""PyTorch's part of the row check before the first step: the model runs in rank 0's process."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from abreast import exact
from abreast.backend.torch import seeds
from abreast.backend.torch.buffers import Buffers
from abreast.keras_private.torch import TorchModuleWrapper


class _Draws(TorchDispatchMode):
    """Notes operations of this thread that may draw random numbers. With some arguments such an operation draws none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.any = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.any = self.any or torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


class TorchProbe:
    """See `exact.Probe`."""

    def __init__(self, model: Any, on_gpu: bool, with_gradients: bool) -> None:
        self._model, self._with_gradients = model, with_gradients
        self.noise = 4e-3 if on_gpu else 3e-6  # a GPU's kernels are chosen by the number of rows
        self._drawn: Any = None
        self._draws = _Draws()
        self.is_one_process = False
        self.shares_python = False

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        self._drawn = seeds.read_torch()
        optimizers: dict[Any, Any] = {}
        handle = register_optimizer_step_pre_hook(lambda optimizer, *_: _note(optimizer, optimizers))
        gradients = [(parameter, parameter.grad) for parameter in self._model.parameters()]
        buffers = Buffers(self._model, global_batch_norm=False)
        buffers.keep()
        kept = [(parameter, parameter._version, parameter.detach().clone()) for parameter in self._assignable()]
        for parameter, _ in gradients:
            parameter.grad = None
        try:
            with torch.set_grad_enabled(self._with_gradients), self._draws:
                yield
        finally:
            handle.remove()
            for optimizer, state in optimizers.items():
                optimizer.state.clear()
                optimizer.state.update(state)
            for parameter, gradient in gradients:
                parameter.grad = gradient
            buffers.put_back()
            with torch.no_grad():
                for parameter, version, copy in kept:
                    if parameter._version != version:
                        parameter.copy_(copy)
            self.rewind_generators()

    def _assignable(self) -> list[Any]:
        """Parameters that a user's own step may change without Keras, with one of PyTorch's optimizers."""
        return list(self._model.parameters()) if self._with_gradients else []

    def rewind_generators(self) -> None:
        seeds.write_torch(self._drawn)

    def drew(self) -> bool:
        on_cpu, on_gpus = self._drawn
        now = [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if on_gpus else [])]
        return self._draws.any and not all(map(torch.equal, now, [on_cpu, *on_gpus]))

    def foreign(self) -> str:
        return ""

    def knows(self, member: Any) -> bool:
        """True for PyTorch's own BatchNorm: `batch_norm.py` gives it the rows of all replicas, unless local ones are wanted."""
        return isinstance(member, TorchModuleWrapper) and any(
            isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in member.modules()
        )


def _note(optimizer: Any, known: dict[Any, Any]) -> None:
    """Keep the state of one of PyTorch's own optimizers before its first step in a run, and record its gradients."""
    run = exact.running()
    if run is None:
        return
    if optimizer not in known:
        known[optimizer] = {parameter: copy.deepcopy(state) for parameter, state in optimizer.state.items()}
    run.note_gradients([parameter.grad for group in optimizer.param_groups for parameter in group["params"]])
