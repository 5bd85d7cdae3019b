"""The kinds of values that `PythonState` watches, and the parts by which it compares each kind."""

from __future__ import annotations

import argparse
import enum
import functools
import sys
import threading
import types
import weakref
from collections import deque
from typing import Any

import keras
import numpy as np
import torch

from abreast.backend.torch import patches
from abreast.backend.torch import python_leaves as leaves
from abreast.backend.torch import python_modules as modules
from abreast.backend.torch import python_parts as parts
from abreast.backend.torch.python_parts import Part
from abreast.backend.torch.users_code import is_users
from abreast.keras_private.models import KerasTensor
from abreast.keras_private.models import Node as KerasNode
from abreast.keras_private.tracking import Tracker


def is_watched(value: Any) -> bool:
    kind: Any = type(value)
    if _is_left_out(kind):
        return False
    if isinstance(value, types.FunctionType):
        return value.__closure__ is not None or is_users(value.__globals__.get("__name__"))
    if isinstance(value, type) and patches.names(value):
        return True
    if isinstance(value, (type, types.ModuleType)):
        return not issubclass(kind, enum.EnumMeta) and is_users(getattr(value, "__module__", None) or value.__name__)
    return not (isinstance(value, torch.Tensor) and value.grad_fn is not None)


@functools.cache
def _is_left_out(kind: type) -> bool:
    """Whether values of a class are not watched: they are immutable, made by Keras or a step, or process-specific."""
    if issubclass(kind, _IMMUTABLE) or issubclass(kind, _OF_KERAS):
        return True
    module = kind.__module__.partition(".")[0]
    if issubclass(kind, _KNOWN):
        return False
    return module == "abreast" or (module in sys.stdlib_module_names and module not in _WITH_DATA)


_WITH_DATA = {"collections", "configparser", "queue"}  # modules of Python's own library whose objects hold only data
_IMMUTABLE: tuple[Any, ...] = (
    *(
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        type(None),
        type(Ellipsis),
        range,
        slice,
        frozenset,
        enum.Enum,
        np.generic,
    ),
    *(torch.dtype, torch.device, types.BuiltinFunctionType, types.CodeType, weakref.ref, np.dtype, np.ufunc),
)
_OF_KERAS: tuple[Any, ...] = (KerasTensor, KerasNode, torch.nn.ParameterDict, torch.nn.ParameterList)
_KNOWN: tuple[Any, ...] = (
    *(types.FunctionType, type, types.ModuleType, types.CellType, types.SimpleNamespace, argparse.Namespace),
    *(threading.local, threading.Event),
    *(tuple, dict, list, set, deque, torch.Tensor, keras.Variable, np.ndarray, functools.partial),
    *leaves.FIXED,
    *leaves.REGISTERS,
)


def parts_of(value: Any) -> list[type[Part]]:
    if isinstance(value, type) and patches.names(value):
        return [modules.PatchedAttributes]
    for kind, chosen in _PARTS:
        if isinstance(value, kind):
            return [*chosen, *([parts.Attributes] if chosen and _has_attributes(value) else [])]
    own: Any = type(value)
    slots = [parts.Slots] if parts.slot_names(own) else []
    return [*([parts.Attributes] if hasattr(value, "__dict__") else []), *slots]


_ALONE = (type, np.ndarray, torch.Tensor, keras.Variable, keras.callbacks.Callback)


def _has_attributes(value: Any) -> bool:
    """Whether a container or a function may have attributes besides its contents."""
    return hasattr(value, "__dict__") and not isinstance(value, _ALONE)


_PARTS: tuple[tuple[Any, list[type[Part]]], ...] = (
    (Tracker, []),
    (keras.callbacks.Callback, [parts.PlainAttributes]),
    (types.FunctionType, [leaves.FunctionParts]),
    (type, [modules.ClassAttributes]),
    (types.ModuleType, []),
    (types.CellType, [leaves.CellContents]),
    ((torch.Tensor, keras.Variable), [leaves.TensorNumbers]),
    (np.ndarray, [leaves.Numbers]),
    (dict, [parts.Items]),
    (list, [parts.Entries]),
    ((set, deque), [parts.Members]),
    (functools.partial, [leaves.PartialParts]),
    (leaves.REGISTERS, [leaves.Registers]),
    (functools._lru_cache_wrapper, [leaves.CacheParts]),
    (leaves.FIXED, [leaves.Fixed]),
)
