"""Memory of tensors that operations write to in a run of the row check: kept before the first write, and restored.

A step may write to any tensor in place: to a target network that only a global holds, or to a weight through `.data`, which
PyTorch does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from abreast import exact
from abreast.backend.torch.memory import identity_of_storage, plain_storage


class WrittenStorages:
    """`is_optimizing`: one of PyTorch's optimizers makes its step, whose writes to weights are those of one device."""

    def __init__(self, variables: list[Any]) -> None:
        self.is_optimizing = False
        self._variables = {identity_of_storage(each._value): each for each in variables}
        self._kept: dict[int, tuple[Any, Any]] = {}  # by the identity of a storage: its bytes, and a copy
        self._new: set[int] = set()  # those that the run has made

    def before(self, operation: Any, args: Any, kwargs: Any) -> None:
        """Keep the memory that an operation is about to write to."""
        for tensor in _written(operation, args, kwargs):
            storage = plain_storage(tensor)
            if storage is None or storage._cdata in self._new:
                continue
            if storage._cdata not in self._kept:
                live = _bytes_of(storage)
                self._kept[storage._cdata] = live, live.clone()
            variable = self._variables.get(storage._cdata)
            run = exact.running()
            if variable is not None and run is not None and not self.is_optimizing:
                run.note_written(variable)

    def after(self, operation: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Note the storages that an operation has made; that of `torch.tensor(...)` comes as an argument."""
        is_fresh = operation is torch.ops.aten.lift_fresh.default
        known = set() if is_fresh else set(map(identity_of_storage, _tensors((args, kwargs))))
        self._new.update(set(map(identity_of_storage, _tensors(result))) - known - self._kept.keys())

    def put_back(self) -> None:
        with _disable_current_modes(), torch.no_grad():
            for live, copy in self._kept.values():
                live.copy_(copy)


def _bytes_of(storage: Any) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _written(operation: Any, args: Any, kwargs: Any) -> Iterator[Any]:
    if not operation._schema.is_mutable:
        return
    for index, argument in enumerate(operation._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from _tensors(args[index] if index < len(args) else kwargs.get(argument.name))


def _tensors(values: Any) -> Iterator[Any]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for each in values:
            yield from _tensors(each)
    elif isinstance(values, dict):
        yield from _tensors([*values.values()])
