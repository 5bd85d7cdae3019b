"""Parts of values that hold no others by name: functions and their cells, arrays, tensors, immutable values.

See `python_parts.py`.
"""

from __future__ import annotations

import array
import contextvars
import ctypes
import functools
import random
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from abreast.backend.torch.cached_results import entry, fill, keys
from abreast.backend.torch.contents import digest
from abreast.backend.torch.pickle_objects import travels_with_callback
from abreast.backend.torch.python_parts import Edit, Part, Step
from abreast.backend.torch.python_same import bare, is_plain, is_same, settle


class Fixed(Part):
    """The contents of an immutable value: the entries of a tuple, the functions of a method or a property."""

    def look(self) -> Any:
        return None

    def held(self) -> Iterator[tuple[Step, Any]]:
        if isinstance(self.owner, tuple):
            return ((("item", index), value) for index, value in enumerate(self.owner))
        names = next(names for kind, names in _HELD.items() if isinstance(self.owner, kind))
        return ((("attribute", name), getattr(self.owner, name)) for name in names)


_UNSET = object()
_FIRST_SETS: dict[
    contextvars.ContextVar[Any], contextvars.Token[Any]
] = {}  # in a worker: a reset of these leaves no value
_MOST_BYTES = 1 << 24  # of a result in a cache
_HELD: dict[Any, tuple[str, ...]] = {
    types.MethodType: ("__func__", "__self__"),
    types.BuiltinMethodType: ("__self__",),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget",),
    functools.cached_property: ("func",),
    type(functools.cache(len)): ("__wrapped__",),
}
FIXED = (tuple, *_HELD)


class CacheParts(Fixed):
    """The function of a `functools.lru_cache`, and the results that it holds, where these are data."""

    def __init__(self, owner: Any) -> None:
        self._sent: set[Any] = set()
        super().__init__(owner)

    def look(self) -> Any:
        return self.owner.cache_info().misses

    def all_edits(self) -> list[Edit]:
        self._sent = set()
        return [("clear", None), *self._new_entries()] if self.owner.cache_info().currsize else []

    def _edits(self, new: Any) -> list[Edit]:
        if new == self.seen:
            return []
        self._sent = self._sent if new > self.seen else set()
        return [*([("clear", None)] if new < self.seen else []), *self._new_entries()]

    def _new_entries(self) -> list[Edit]:
        """The entries with data that the other processes lack."""
        new = [key for key in keys(self.owner) if key not in self._sent]
        self._sent.update(new)
        found = [
            each for each in (entry(self.owner, key) for key in new) if is_plain(each[:2]) and _is_small_data(each[2])
        ]
        return [("fill", found)] if found else []

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        if edit[0] == "fill":
            fill(owner, edit[1])
        else:
            owner.cache_clear()


def _is_small_data(value: Any) -> bool:
    is_large = isinstance(value, (np.ndarray, torch.Tensor)) and value.nbytes > _MOST_BYTES
    return travels_with_callback(value) and not is_large


class PartialParts(Part):
    """The function and arguments of a `functools.partial`."""

    def look(self) -> Any:
        return None

    def held(self) -> Iterator[tuple[Step, Any]]:
        return ((("attribute", name), getattr(self.owner, name)) for name in ("func", "args", "keywords"))


class FunctionParts(Part):
    """A function's code and defaults."""

    _names = ("__code__", "__defaults__", "__kwdefaults__")

    def look(self) -> Any:
        function = self.owner
        return function.__code__, function.__defaults__, function.__kwdefaults__

    def held(self) -> Iterator[tuple[Step, Any]]:
        yield from ((("attribute", name), getattr(self.owner, name)) for name in self._names[1:])
        yield from ((("cell", index), cell) for index, cell in enumerate(self.owner.__closure__ or ()))

    def _edits(self, new: Any) -> list[Edit]:
        changed = [not is_same(*pair) for pair in zip(self.seen, new, strict=True)]
        return [("put", n, value) for n, value, other in zip(self._names, new, changed, strict=True) if other]

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        setattr(owner, edit[1], edit[2])


class CellContents(Part):
    """The value of an outer function's variable."""

    def look(self) -> Any:
        try:
            return settle(self.owner.cell_contents)
        except ValueError:  # empty
            return None

    def held(self) -> Iterator[tuple[Step, Any]]:
        return iter([(("contents", None), bare(self.seen))])

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        owner.cell_contents = edit[1]


class ContextValue(Part):
    """The present value of a `contextvars.ContextVar`."""

    def look(self) -> Any:
        try:
            return settle(self.owner.get())
        except LookupError:
            return _UNSET

    def held(self) -> Iterator[tuple[Step, Any]]:
        return iter([(("value", None), bare(self.seen))])

    def all_edits(self) -> list[Edit]:
        return [("whole", bare(self.seen))] if self.seen is not _UNSET else []

    def _edits(self, new: Any) -> list[Edit]:
        return [("reset", None)] if new is _UNSET is not self.seen else super()._edits(new)

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        if edit[0] == "reset":
            owner.reset(_FIRST_SETS.pop(owner))
        else:
            token = owner.set(edit[1])
            _FIRST_SETS.setdefault(owner, token)


class WeakTarget(Part):
    """The target of a weak reference; `PythonState` ends a hold that only it has."""

    def look(self) -> Any:
        return None

    def held(self) -> Iterator[tuple[Step, Any]]:
        return iter([(("target", None), self.owner())])


class Factory(Part):
    """The function that makes the missing values of a `defaultdict`."""

    def look(self) -> Any:
        return settle(self.owner.default_factory)

    def held(self) -> Iterator[tuple[Step, Any]]:
        return iter([(("attribute", "default_factory"), bare(self.seen))])

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        owner.default_factory = edit[1]


class Numbers(Part):
    """The numbers in an array."""

    def look(self) -> Any:
        return self.owner.shape, self.owner.dtype.str, self.owner.tobytes()

    def _edits(self, new: Any) -> list[Edit]:
        return [] if new == self.seen else [("numbers", self.owner.copy())]

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        if owner.shape != edit[1].shape:
            owner.resize(edit[1].shape, refcheck=False)
        owner[...] = edit[1]


class TensorNumbers(Part):
    """The numbers in a tensor or variable that does not belong to the model, its optimizer or its metrics."""

    def look(self) -> Any:
        tensor = tensor_of(self.owner)
        if tensor is None or tensor.is_meta or tensor.layout != torch.strided:  # None: another thread is making it
            return None
        return tensor._version, tensor.data_ptr(), digest(tensor)

    def _edits(self, new: Any) -> list[Edit]:
        tensor = tensor_of(self.owner)
        return [] if new == self.seen or tensor is None else [("numbers", tensor.detach().clone())]

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        tensor = tensor_of(owner)
        assert tensor is not None
        with torch.no_grad():
            if tensor.shape != edit[1].shape:
                tensor.resize_(edit[1].shape)
            tensor.copy_(edit[1])


class Registers(Part):
    """The state of an object that is not kept in Python attributes."""

    def look(self) -> Any:
        return next(get for kind, get, _ in _REGISTERS if isinstance(self.owner, kind))(self.owner)

    def _edits(self, new: Any) -> list[Edit]:
        return [("whole", new)]

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        next(put for kind, _, put in _REGISTERS if isinstance(owner, kind))(owner, edit[1])


def _state_of(generator: np.random.RandomState) -> Any:
    """The state, with bytes in place of an array, which has no single truth value in comparisons."""
    state: Any = generator.get_state()
    return (state[0], state[1].tobytes(), *state[2:]) if isinstance(state, tuple) else state


def _put_numpys_state(generator: np.random.RandomState, state: Any) -> None:
    generator.set_state(
        (state[0], np.frombuffer(state[1], np.uint32), *state[2:]) if isinstance(state, tuple) else state
    )


def _put_torchs_state(generator: Any, state: bytes) -> None:
    generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _put_bytes(owner: Any, data: bytes) -> None:
    del owner[:]
    (owner.extend if isinstance(owner, bytearray) else owner.frombytes)(data)


_REGISTERS: tuple[tuple[Any, Any, Any], ...] = (
    (bytearray, bytes, _put_bytes),
    (ctypes.Array, bytes, lambda own, data: ctypes.memmove(own, data, len(data))),
    (array.array, array.array.tobytes, _put_bytes),
    (random.Random, random.Random.getstate, random.Random.setstate),
    (np.random.RandomState, _state_of, _put_numpys_state),
    (torch.Generator, lambda own: own.get_state().numpy().tobytes(), _put_torchs_state),
    (np.random.Generator, lambda own: own.bit_generator.state, lambda own, state: _put_state(own.bit_generator, state)),
)
REGISTERS = tuple(kind for kind, _, _ in _REGISTERS)


def _put_state(generator: Any, state: Any) -> None:
    generator.state = state


def tensor_of(value: Any) -> torch.Tensor | None:
    """A tensor itself, or the tensor of a variable; None if the variable has none yet."""
    return value if isinstance(value, torch.Tensor) else value._value
