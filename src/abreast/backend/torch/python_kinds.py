"""The kinds of values that `PythonState` watches, and the parts by which it compares each kind."""

from __future__ import annotations

import abc
import argparse
import contextvars
import enum
import functools
import io
import random
import re
import struct
import threading
import types
import weakref
from collections import defaultdict, deque
from typing import Any

import keras
import numpy as np
import torch

from abreast.backend.torch import patches
from abreast.backend.torch import python_leaves as leaves
from abreast.backend.torch import python_modules as modules
from abreast.backend.torch import python_opaque as opaque
from abreast.backend.torch import python_parts as parts
from abreast.backend.torch.python_parts import Part
from abreast.backend.torch.users_code import FRAMEWORKS, is_installed, is_of_python, is_users
from abreast.keras_private.models import KerasTensor
from abreast.keras_private.models import Node as KerasNode
from abreast.keras_private.tracking import Tracker
from abreast.users_functions import slot_names


def is_watched(value: Any) -> bool:
    kind: Any = type(value)
    if _is_left_out(kind):
        return False
    if isinstance(value, frozenset):
        return bool(opaque.objects_of(value))
    if isinstance(value, types.BuiltinMethodType):
        return _is_bound(value)
    if isinstance(value, weakref.ref):
        return is_users(type(value()).__module__)
    if isinstance(value, types.FunctionType):
        return value.__closure__ is not None or is_users(value.__globals__.get("__name__"))
    if isinstance(value, type) and patches.names(value):
        return True
    if isinstance(value, (type, types.ModuleType)):
        return is_users(getattr(value, "__module__", None) or value.__name__)
    return not (isinstance(value, torch.Tensor) and value.grad_fn is not None)


@functools.cache
def _is_left_out(kind: type) -> bool:
    """Whether values of a class are not watched: they are immutable, made by Keras or a step, or process-specific."""
    if issubclass(kind, _IMMUTABLE):
        # A number or text of the user's own class may have attributes; a member of an `Enum` is compared with its class.
        return not (kind.__dictoffset__ and is_users(kind.__module__)) or issubclass(kind, enum.Enum)
    if issubclass(kind, (*_ENTERED, *_OPAQUE)):
        return False
    package = kind.__module__.partition(".")[0]
    return issubclass(kind, _OF_KERAS) or package in ("abreast", *_OF_A_PROCESS)


def _is_bound(value: Any) -> bool:
    """Whether a built-in method belongs to an object, as `table.get` does; not `random.random`, whose state is each rank's."""
    owner = value.__self__
    return owner is not None and owner is not _OF_RANDOM and not isinstance(owner, (types.ModuleType, type))


_OF_RANDOM = vars(random)["_inst"]
_WITH_DATA = {"collections", "configparser", "queue"}  # modules of Python's library whose objects are entered
_OF_A_PROCESS = {"threading", "_thread", "_io", "socket", "ssl", "select", "subprocess", "multiprocessing", "asyncio"}
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
        enum.Enum,
        type(NotImplemented),
        np.generic,
    ),
    *(torch.dtype, torch.device, types.CodeType, np.dtype, np.ufunc, re.Pattern, types.FrameType),
    *(types.WrapperDescriptorType, types.MethodWrapperType, types.MethodDescriptorType),
    *(types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType),
)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_OF_KERAS: tuple[Any, ...] = (KerasTensor, KerasNode, torch.nn.ParameterDict, torch.nn.ParameterList)
_OPAQUE: tuple[Any, ...] = (frozenset, enum.EnumMeta, io.StringIO, io.BytesIO)
_ENTERED: tuple[Any, ...] = (
    *(types.FunctionType, type, types.ModuleType, types.CellType, types.SimpleNamespace, argparse.Namespace),
    *(threading.local, threading.Event, threading.Semaphore, threading.Barrier, *_LOCKS),
    *(contextvars.ContextVar, io.TextIOWrapper, weakref.ref),
    *(tuple, dict, list, set, deque, torch.Tensor, keras.Variable, np.ndarray, functools.partial),
    *leaves.FIXED,
    *leaves.REGISTERS,
)


def parts_of(value: Any) -> list[type[Part]]:
    if isinstance(value, type) and patches.names(value):
        return [modules.PatchedAttributes]
    if _is_opaque(value):
        return [opaque.Opaque]
    for kind, chosen in _PARTS:
        if isinstance(value, kind):
            attributes = [parts.Attributes] if chosen and _has_attributes(value) else []
            objects = [opaque.Unaddressed] if isinstance(value, _WITH_OBJECTS) and opaque.objects_of(value) else []
            return [*chosen, *attributes, *objects]
    own: Any = type(value)
    slots = slot_names(own)
    named: list[type[Part]] = [
        *([parts.Attributes] if hasattr(value, "__dict__") else []),
        *([parts.Slots] if slots else []),
    ]
    return [*named, opaque.Hidden] if _has_hidden_state(own, len(slots)) else named


@functools.cache
def _has_hidden_state(kind: Any, num_slots: int) -> bool:
    """Whether the C code of a package gave objects of a class more memory than their attributes need."""
    own = [each for each in kind.__mro__ if is_installed(each.__module__)]
    if all(each.__module__.partition(".")[0] in FRAMEWORKS for each in own):
        return False
    pointers = num_slots + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return bool(kind.__basicsize__ > object.__basicsize__ + _POINTER_BYTES * pointers)


_POINTER_BYTES = struct.calcsize("P")


def _is_opaque(value: Any) -> bool:
    kind: Any = type(value)
    if issubclass(kind, torch.Tensor):
        return bool(value.layout != torch.strided)
    is_entered = issubclass(kind, _ENTERED) or kind.__module__.partition(".")[0] in _WITH_DATA
    return issubclass(kind, _OPAQUE) or (is_of_python(kind.__module__) and not is_entered)


_WITH_OBJECTS = (set, dict, np.ndarray)
_ALONE = (type, keras.Variable, keras.callbacks.Callback)


def _has_attributes(value: Any) -> bool:
    """Whether a container or a function may have attributes besides its contents."""
    return hasattr(value, "__dict__") and not isinstance(value, _ALONE)


_PARTS: tuple[tuple[Any, list[type[Part]]], ...] = (
    (Tracker, []),
    (keras.callbacks.Callback, [parts.PlainAttributes]),
    (types.FunctionType, [leaves.FunctionParts]),
    (abc.ABCMeta, [modules.ClassAttributes, opaque.Bases, modules.VirtualSubclasses]),
    (type, [modules.ClassAttributes, opaque.Bases]),
    (types.ModuleType, []),
    (types.CellType, [leaves.CellContents]),
    (contextvars.ContextVar, [leaves.ContextValue]),
    (weakref.ref, [leaves.WeakTarget]),
    ((torch.Tensor, keras.Variable), [leaves.TensorNumbers]),
    (np.ndarray, [leaves.Numbers]),
    (defaultdict, [parts.Items, leaves.Factory]),
    (dict, [parts.Items]),
    (list, [parts.Entries]),
    ((set, deque), [parts.Members]),
    (functools.partial, [leaves.PartialParts]),
    (leaves.REGISTERS, [leaves.Registers]),
    (functools._lru_cache_wrapper, [leaves.CacheParts]),
    (leaves.FIXED, [leaves.Fixed]),
    (io.TextIOWrapper, [opaque.Position]),
    (_LOCKS, [opaque.Lock]),
)
