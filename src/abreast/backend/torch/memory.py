"""Writes to tensors that torch does not count: through `.data`, NumPy, DLPack, a storage or a pointer.

Torch counts the in-place changes of its own operations (`Tensor._version`), and no other writes. Here, a tensor's storage notes
each request for another access. Arrays and tensors that are still in use count as owners of the storage; storages and pointers do
not. Memory that torch did not allocate can change at any time.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from abreast.backend.torch.contents import Contents

_OWNERS = 2  # the tensor, and the storage's Python object
_COUNTED = ("numpy", "__dlpack__")  # methods of tensors whose results count as owners
_UNCOUNTED = ("untyped_storage", "data_ptr")

# Attributes of storages. Python keeps the object of a storage as long as torch keeps the storage.
_ASKED = "_abreast_asked"  # time of the last request
_LENT = "_abreast_lent"  # torch allocated it, and takes it for NumPy's after a call of `numpy`
_OPEN = "_abreast_open"  # a storage or pointer was given out, which is not counted as an owner

ON_READ: list[Callable[[torch.Tensor], None]] = []  # called before a tensor becomes an array or a list

_times = itertools.count(1)
_untyped_storage: Any = torch.Tensor.untyped_storage
_plain_data: Any = torch.Tensor.data
_num_owners: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)


class Memory:
    """The memory of some tensors at one moment, for a later comparison by `written`."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._storages = [plain_storage(tensor) for tensor in tensors]
        self._shared = [index for index, storage in enumerate(self._storages) if _is_shared(storage)]
        self._contents = Contents([tensors[index] for index in self._shared])
        self._time = next(_times)

    def written(self, tensors: Sequence[torch.Tensor]) -> set[int]:
        """Indices of the tensors that may have been written to; all indices if the number of tensors has changed.

        A tensor whose memory was shared is included if its contents differ; any other if its memory was requested since.
        """
        if len(tensors) != len(self._storages):
            return {*range(len(tensors))}
        differing = self._contents.differing([tensors[index] for index in self._shared])
        pairs = enumerate(zip(map(plain_storage, tensors), self._storages, strict=True))
        asked = {i for i, (now, before) in pairs if now is not before or getattr(now, _ASKED, 0) > self._time}
        return {self._shared[position] for position in differing} | asked.difference(self._shared)


@functools.cache
def note_requests() -> None:
    """Make storages note requests for their memory from now on. Runs once."""
    tensor: Any = torch.Tensor
    for name in (*_COUNTED, *_UNCOUNTED):
        plain = getattr(tensor, name)
        setattr(tensor, name, _noting(_reading(plain) if name in _COUNTED else plain))
    tensor.tolist = _reading(tensor.tolist)
    tensor.data = property(_get_data, _set_data, doc=_plain_data.__doc__)


def plain_storage(tensor: torch.Tensor) -> Any:
    """The storage of a tensor; None for a tensor without one, such as a sparse tensor."""
    try:
        return _untyped_storage(tensor)
    except (NotImplementedError, RuntimeError):
        return None


def identity_of_storage(tensor: torch.Tensor) -> int:
    """The identity of a tensor's memory; 0 for a tensor without one."""
    storage = plain_storage(tensor)
    return 0 if storage is None else int(storage._cdata)


def _is_shared(storage: Any) -> bool:
    """Whether other code may hold this memory; True if torch does not report it."""
    if storage is None or hasattr(storage, _OPEN) or _num_owners is None or _num_owners(storage._cdata) > _OWNERS:
        return True
    is_own = storage.resizable() or hasattr(storage, _LENT)
    return not is_own or (storage.device.type == "cpu" and storage.is_shared())


def _note(tensor: torch.Tensor, way: str) -> None:
    storage = plain_storage(tensor)
    if storage is None:
        return
    setattr(storage, _ASKED, next(_times))
    if way in _UNCOUNTED:
        setattr(storage, _OPEN, True)
    elif way == "numpy" and storage.resizable():
        setattr(storage, _LENT, True)


def _noting(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def ask(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        _note(self, plain.__name__)
        return plain(self, *args, **kwargs)

    return ask


def _reading(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def read(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        for each in ON_READ:
            each(self)
        return plain(self, *args, **kwargs)

    return read


def _get_data(self: torch.Tensor) -> torch.Tensor:
    _note(self, "data")
    return _plain_data.__get__(self)  # type: ignore[no-any-return]


def _set_data(self: torch.Tensor, value: torch.Tensor) -> None:
    _plain_data.__set__(self, value)
    _note(self, "data")
