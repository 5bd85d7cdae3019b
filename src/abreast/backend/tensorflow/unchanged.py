"""Checksums of variables at the beginning of a call, cheap for variables that have not changed since the last call ended.

TensorFlow writes to a variable's memory only while no other code holds its value. So while abreast holds the value, every
assignment, also by `tf.Variable.assign`, gives the variable new memory. If a large variable still has the same memory, only some
of its numbers are read. Variables with sparse updates never share their memory: they are always read in full.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import partial
from typing import Any
from weakref import ref

import numpy as np
import tensorflow as tf

from abreast.feed import array_digest

_LARGE_BYTES = 1 << 16  # reading a smaller variable takes as long as finding its address
_SAMPLED = 256  # numbers

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class HeldValues:
    """The values of large variables at the end of a call. Forget them before a step, or it must copy the variables."""

    def __init__(self) -> None:
        # By the identity of a plain variable: a weak reference to it, and its value.
        self._held: dict[int, tuple[Any, Any]] = {}

    def hold(self, variables: Iterable[Any]) -> None:
        """Hold the values of Keras variables, without a copy."""
        for plain in (variable._value for variable in variables):
            if _num_bytes(plain) >= _LARGE_BYTES:
                forget = partial(self._forget, id(plain))
                self._held[id(plain)] = ref(plain, forget), _read(plain)

    def _forget(self, number: int, _: Any) -> None:
        self._held.pop(number, None)

    def forget(self) -> None:
        self._held.clear()

    def digest(self, variable: Any) -> int:
        """A checksum of a Keras variable: of some of its numbers if its value is still the held one, else of all."""
        value = _read(variable._value)
        _, held = self._held.get(id(variable._value), (None, None))
        if held is None or _address(value) != _address(held):
            return array_digest(value)
        step = max(1, int(value.shape.num_elements()) // _SAMPLED)
        if "CPU" in value.device:
            return array_digest(np.asarray(value).reshape(-1)[::step])  # without a copy of all
        return array_digest(tf.reshape(value, [-1])[::step])


def _num_bytes(plain: Any) -> int:
    return int(plain.shape.num_elements()) * int(plain.dtype.size)


def _read(plain: Any) -> Any:
    return tf.raw_ops.ReadVariableOp(resource=plain.handle, dtype=plain.dtype)


def _address(value: Any) -> int | None:
    """The memory address of a tensor's numbers, on the CPU or a GPU: the first field of its DLPack struct."""
    managed = _pointer(tf.experimental.dlpack.to_dlpack(value), b"dltensor")
    return ctypes.c_void_p.from_address(managed).value
