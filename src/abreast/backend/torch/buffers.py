"""Buffers of the torch modules inside a model: state that no Keras variable holds, such as running statistics.

The changes that the ranks make to a buffer in a step are averaged over rows. Constants keep every bit. Buffers that batch
normalization fills from the rows of all ranks are equal without an average.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import torch
from torch.nn.modules.batchnorm import _NormBase

from abreast import exact
from abreast.errors import CheckpointError

_WITHOUT_BUFFERS = (keras.Layer, torch.nn.ParameterDict)  # of their own


@dataclass(frozen=True)
class _Kept:
    """A buffer of a module as it was before a step."""

    module: Any
    name: str
    tensor: torch.Tensor
    version: int
    value: torch.Tensor

    @property
    def now(self) -> torch.Tensor:
        return self.module._buffers[self.name]  # type: ignore[no-any-return]

    @property
    def has_changes(self) -> bool:
        """Whether a step's change can be averaged: the type is floating and the shape is still the same."""
        now = self.module._buffers.get(self.name)
        return self.tensor.is_floating_point() and now is not None and now.shape == self.value.shape

    @property
    def is_changed(self) -> bool:
        return self.module._buffers.get(self.name) is not self.tensor or self.tensor._version != self.version


class Buffers:
    """The buffers of all torch modules of a model, in an order that is the same on every rank."""

    def __init__(self, model: Any, global_batch_norm: bool) -> None:
        self._model = model
        self._global_batch_norm = global_batch_norm
        modules = {id(one): one for layer in model._flatten_layers() for one in layer.modules()}
        self._modules = [one for one in modules.values() if one._buffers or not isinstance(one, _WITHOUT_BUFFERS)]
        self._kept: list[_Kept] = []
        self._changes: list[torch.Tensor] = []
        self._marks: list[Any] = []
        self._judged: set[tuple[int, str]] = set()
        self.mark()

    def tensors(self) -> list[torch.Tensor]:
        return [tensor for _, _, tensor in self._present()]

    def layout(self) -> list[Any]:
        """Shapes and types of the buffers, which must be equal on all ranks for an exchange."""
        return [(tensor.shape, tensor.dtype) for tensor in self.tensors()]

    # A checkpoint.

    def read(self) -> dict[str, Any]:
        """Copies of all buffers as NumPy arrays, by number and name."""
        return {f"{i}/{name}": as_array(tensor) for i, (_, name, tensor) in enumerate(self._present())}

    @torch.no_grad()
    def write(self, values: Mapping[str, Any]) -> None:
        """Set the buffers that `read` returned. Raises `CheckpointError` if this model has other buffers."""
        present = {f"{i}/{name}": tensor for i, (_, name, tensor) in enumerate(self._present())}
        own, saved = ({name: tuple(each.shape) for name, each in all_.items()} for all_ in (present, values))
        if own != saved:
            raise CheckpointError(
                f"the checkpoint has the buffers {saved}, this model has {own}", "build the model of the checkpoint"
            )
        for name, tensor in present.items():
            tensor.copy_(torch.from_numpy(np.array(values[name])))

    # Changes from outside a step.

    def mark(self, besides: Collection[int] = ()) -> None:
        """Record that all ranks have the present values of the buffers, except those with the indices `besides`."""
        marks = [(tensor, tensor._version) for tensor in self.tensors()]
        self._marks = [self._marks[i] if i in besides else mark for i, mark in enumerate(marks)]

    def changed(self) -> list[int]:
        """Indices of the buffers that were changed or replaced since `mark`."""
        pairs = zip(self.tensors(), self._marks, strict=True)
        return [
            i for i, (tensor, (known, version)) in enumerate(pairs) if tensor is not known or tensor._version != version
        ]

    def fits(self) -> bool:
        """Whether the buffers have the same number, shapes and types as at `mark`."""
        return self.layout() == [(tensor.shape, tensor.dtype) for tensor, _ in self._marks]

    # Changes in a step. Most models have no buffers, and pay little here.

    def keep(self) -> None:
        """Remember the values before a step that may change them."""
        present = list(self._present())
        tensors = [tensor for _, _, tensor in present]
        values = [torch.empty_like(tensor) for tensor in tensors]
        if values:
            with torch.no_grad():
                torch._foreach_copy_(values, tensors)
        self._kept = [
            _Kept(module, name, tensor, tensor._version, value)
            for (module, name, tensor), value in zip(present, values, strict=True)
        ]

    @torch.no_grad()
    def put_back(self) -> None:
        """Restore the values at `keep`."""
        for kept in self._kept:
            kept.tensor.copy_(kept.value)
            kept.module._buffers[kept.name] = kept.tensor

    def changes(self) -> list[torch.Tensor]:
        """This rank's changes of the buffers since `keep`, to be averaged over rows in place. Call it without gradients."""
        self._changes = [kept.now - kept.value for kept in self._averaged()]
        return self._changes

    def finish(self, speaks: bool) -> None:
        """Set the buffers to their values at `keep` plus the averaged changes; the rank with `speaks` warns if necessary.

        Call it without gradients.
        """
        if not self._kept:
            return
        averages = [kept.value + change for kept, change in zip(self._averaged(), self._changes, strict=True)]
        if speaks:
            self._judge(averages)
        for kept, average in zip(self._averaged(), averages, strict=True):
            kept.now.copy_(average)  # also where only another rank has changed it

    def _judge(self, averages: list[torch.Tensor]) -> None:
        """Warn of buffers that depend on which rows a rank sees. Each is judged once, in the first step that changes it."""
        means = {id(kept): average for kept, average in zip(self._averaged(), averages, strict=True)}
        unlike = []
        for kept in self._kept:
            place = (id(kept.module), kept.name)
            if place in self._judged or isinstance(kept.module, _NormBase) or not kept.is_changed:
                continue
            self._judged.add(place)
            mean = means.get(id(kept))
            if mean is None or not torch.allclose(kept.now, mean, rtol=1e-4):
                unlike.append(f"{kept.name} ({type(kept.module).__name__})")
        if unlike:
            _warn(self._model, unlike)

    def _averaged(self) -> list[_Kept]:
        return [kept for kept in self._kept if kept.has_changes and not self._is_global(kept.module)]

    def _is_global(self, module: Any) -> bool:
        return self._global_batch_norm and isinstance(module, torch.nn.modules.batchnorm._BatchNorm)

    def _present(self) -> Iterator[tuple[Any, str, torch.Tensor]]:
        seen = set()
        for module in self._modules:
            for name, tensor in module._buffers.items():
                if tensor is not None and tensor.layout is torch.strided and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield module, name, tensor


def as_array(tensor: torch.Tensor) -> Any:
    """A copy of a tensor as a NumPy array."""
    detached = tensor.detach().cpu()
    return (detached.float() if detached.dtype == torch.bfloat16 else detached).numpy().copy()  # NumPy has no bfloat16


def _warn(model: Any, names: list[str]) -> None:
    exact.warn_once(
        model,
        "own buffers",
        f"torch modules keep state in buffers: {', '.join(names)}. Each replica changes it by its own rows; after a step it "
        "is the mean over the rows if it has a floating type, else the first replica's. A running mean is then what "
        "one device computes; a sum or a count is not",
    )
