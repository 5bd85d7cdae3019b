"""Which tensors somebody may have written to without torch counting it: through `.data`, NumPy, a storage, DLPack, a pointer.

Torch counts what its operations change in place (`Tensor._version`), but not what is written through these. A tensor's storage
notes when somebody asked for one of them. Whoever still has one shows in the number of the storage's owners. Memory that torch
did not allocate can change at any time. Imports torch.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from abreast.backend.torch_contents import Contents

_OWNERS = 2  # the tensor, and the object that is the storage in Python
_WAYS = ("numpy", "untyped_storage", "data_ptr", "__dlpack__")

# Attributes of storages. Python keeps the object of a storage for as long as torch keeps the storage.
_ASKED = "_abreast_asked"  # when somebody last asked
_LENT = (
    "_abreast_lent"  # torch's own memory, of which NumPy has got an array: torch looks on it as on NumPy's from then on
)

_times = itertools.count(1)
_plain_storage: Any = torch.Tensor.untyped_storage
_plain_data: Any = torch.Tensor.data
_num_owners: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)


class Memory:
    """Of some tensors, as it is now; `written` tells to which of them somebody may have written since."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._storages = [_storage(tensor) for tensor in tensors]
        self._shared = [index for index, storage in enumerate(self._storages) if _is_shared(storage)]
        self._contents = Contents([tensors[index] for index in self._shared])
        self._time = next(_times)

    def written(self, tensors: Sequence[torch.Tensor]) -> set[int]:
        """Indices of those whose storage was asked for or is another, or is shared and holds something else by now."""
        storages = [_storage(tensor) for tensor in tensors]
        if len(storages) != len(self._storages):
            return {*range(len(storages))}
        differing = self._contents.differing([tensors[index] for index in self._shared])
        pairs = enumerate(zip(storages, self._storages, strict=True))
        others = {index for index, (now, before) in pairs if now is not before or self._is_asked(now)}
        return {self._shared[position] for position in differing} | others.difference(self._shared)

    def _is_asked(self, storage: Any) -> bool:
        return getattr(storage, _ASKED, 0) > self._time


def _storage(tensor: torch.Tensor) -> Any:
    """None for tensors without one, as sparse ones."""
    try:
        return _plain_storage(tensor)
    except (NotImplementedError, RuntimeError):
        return None


def _is_shared(storage: Any) -> bool:
    """Whether somebody else may have this memory in his hands; True where torch does not say."""
    if storage is None or _num_owners is None or _num_owners(storage._cdata) > _OWNERS:
        return True
    is_own = storage.resizable() or hasattr(storage, _LENT)
    return not is_own or (storage.device.type == "cpu" and storage.is_shared())


@functools.cache
def note_requests() -> None:
    """Let storages note who asks for them, from now on. Once."""
    tensor: Any = torch.Tensor
    for name in _WAYS:
        setattr(tensor, name, _noting(getattr(tensor, name)))
    tensor.data = property(_get_data, _set_data, doc=_plain_data.__doc__)


def _noting(plain: Callable[..., Any]) -> Callable[..., Any]:
    is_numpy = plain.__name__ == "numpy"

    @functools.wraps(plain)
    def ask(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        _note(self, is_numpy)
        # An array owns the tensor that it was asked of. With one of its own it shows among the storage's owners.
        source = self.detach() if is_numpy and not self.requires_grad else self
        return plain(source, *args, **kwargs)

    return ask


def _note(tensor: torch.Tensor, is_numpy: bool = False) -> None:
    storage = _storage(tensor)
    if storage is not None:
        setattr(storage, _ASKED, next(_times))
        if is_numpy and storage.resizable():
            setattr(storage, _LENT, True)


def _get_data(self: torch.Tensor) -> torch.Tensor:
    _note(self)
    return _plain_data.__get__(self)  # type: ignore[no-any-return]


def _set_data(self: torch.Tensor, value: torch.Tensor) -> None:
    _plain_data.__set__(self, value)
    _note(self)
