"""Rules for objects that pickle cannot write, or writes wrongly: tensors, arrays, code, locks, callbacks, caches.

Each rule has a function that describes the object and, where needed, a function that makes it again in the other process.
"""

from __future__ import annotations

import contextvars
import copyreg
import ctypes
import enum
import functools
import importlib
import logging
import pickle
import sys
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import cloudpickle
import keras
import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from abreast.backend.torch.modules_by_path import can_import
from abreast.backend.torch.python_same import is_plain
from abreast.backend.torch.unpickle_model import made_module
from abreast.backend.torch.users_code import is_users
from abreast.keras_private.models import DynamicBackend
from abreast.keras_private.torch import get_device
from abreast.keras_private.tracking import TRACKED_ORDERED, TrackedDict, TrackedList, TrackedSet

_TRACKED: tuple[Any, ...] = (TrackedDict, TrackedList, TrackedSet, *TRACKED_ORDERED)


def reducer(value: Any) -> Callable[[Any], Any] | None:
    """The function that pickles a value in its own way; None if cloudpickle pickles it."""
    if isinstance(value, torch.Tensor):
        return _reduce_tensor
    if isinstance(value, _TRACKED):
        return _reduce_tracked
    if isinstance(value, types.FunctionType) and hasattr(value, "_torchdynamo_orig_callable"):
        return lambda compiled: (_same, (compiled._torchdynamo_orig_callable,))
    if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
        if is_users(value.__name__) and not can_import(value.__name__):
            return lambda module: (made_module, (module.__name__, id(vars(module))))
        # cloudpickle cannot write modules with a class of their own (`torch.ops`, `torch.backends.cudnn`).
        return None if type(value) is types.ModuleType else lambda module: (importlib.import_module, (module.__name__,))
    if type(value).__name__ == "StaticHashTable" and type(value).__module__.startswith("tensorflow."):
        return _reduce_table
    if isinstance(value, enum.EnumMeta):
        return None if cloudpickle.cloudpickle._should_pickle_by_reference(value) else _reduce_enum
    for kind, reduce in _REDUCERS:
        if isinstance(value, kind):
            return reduce
    if _is_named(value) or _hands_on(type(value)):
        return _reduce_attributes
    name = _name_of_mark(value)
    return None if name is None else lambda mark: (getattr, (sys.modules[type(mark).__module__], name))


def _is_named(value: Any) -> bool:
    """Whether an object's pickle is the name of a global that other processes do not have, as that of a single object may be."""
    kind: Any = type(value)
    is_own = isinstance(kind.__reduce__, types.FunctionType) and is_users(kind.__module__)
    return is_own and not can_import(kind.__module__) and isinstance(value.__reduce__(), str)


def _hands_on(kind: Any) -> bool:
    """Whether objects of a user's class answer unknown names from what they hold: `__setstate__` is one, before they hold it."""
    has_own_state = kind.__getstate__ is not object.__getstate__ or kind.__new__ is not object.__new__
    has_own_state = has_own_state or any(hasattr(kind, name) for name in _OF_PICKLE)
    is_python = all(each.__flags__ & _IN_PYTHON and "__slots__" not in vars(each) for each in kind.__mro__[:-1])
    return (
        hasattr(kind, "__getattr__")
        and is_users(kind.__module__)
        and _is_reduced_as_object(kind)
        and is_python
        and not has_own_state
    )


_OF_PICKLE = ("__setstate__", "__getnewargs__", "__getnewargs_ex__")
_IN_PYTHON = 1 << 9  # Python's flag for classes made at run time


def _is_reduced_as_object(kind: Any) -> bool:
    return kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__


def _reduce_attributes(value: Any) -> Any:
    return object.__new__, (type(value),), vars(value), None, None, _set_attributes


def _name_of_mark(value: Any) -> str | None:
    """The name of an object without contents in the installed module of its class: code compares such a mark by `is`."""
    kind: Any = type(value)
    module = sys.modules.get(kind.__module__)
    is_plain_object = _is_reduced_as_object(kind) and kind not in copyreg.dispatch_table
    if module is None or not is_plain_object or isinstance(value, type) or is_users(kind.__module__):
        return None
    name = next((name for name, each in vars(module).items() if each is value), None)
    return None if name is None or any(value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)[2:]) else name


def _reduce_tensor(tensor: torch.Tensor) -> Any:
    parameter = isinstance(tensor, torch.nn.Parameter)
    flat = tensor.detach() if parameter else tensor.detach().clone()  # what `numpy` has seen cannot be resized
    requires_grad = tensor.requires_grad and tensor.is_leaf
    if flat.is_meta or flat.layout != torch.strided or flat.is_quantized:
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    array: Any = (
        flat.cpu().contiguous().reshape(-1).view(torch.uint8).numpy() if flat.numel() else np.zeros(0, np.uint8)
    )
    # DDP sums gradients in their memory order, so a replica's weights need the strides of the original.
    layout = (tuple(flat.shape), flat.stride() if _is_dense(flat) else None)
    arguments = pickle.PickleBuffer(array), flat.dtype, layout, parameter, requires_grad
    attributes = {name: value for name, value in vars(tensor).items() if travels_with_callback(value)}
    return _make_tensor, arguments, attributes or None, None, None, _set_attributes


def _set_attributes(value: Any, attributes: dict[str, Any]) -> None:
    vars(value).update(attributes)


def _make_tensor(data: Any, dtype: torch.dtype, layout: Any, parameter: bool, requires_grad: bool) -> Any:
    device = get_device()
    shape, strides = layout
    if len(data):
        tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(shape).to(device)
        tensor = tensor if parameter else tensor.clone()  # with memory of its own, which a script may resize
    else:
        tensor = torch.empty(shape, dtype=dtype, device=device)
    if strides is not None and strides != tensor.stride():
        tensor = torch.empty_strided(shape, strides, dtype=dtype, device=device).copy_(tensor)
    return torch.nn.Parameter(tensor, requires_grad) if parameter else tensor.requires_grad_(requires_grad)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the tensor is contiguous in some order of its axes."""
    order = sorted(range(tensor.dim()), key=lambda axis: (tensor.stride(axis), tensor.shape[axis]))
    return tensor.permute(order[::-1]).is_contiguous()


def _reduce_array(array: Any) -> Any:
    """An array that owns its memory, as the original does, so that a script may resize it."""
    if type(array) is not np.ndarray or not array.flags.owndata or array.dtype.hasobject:
        return array.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    order: Any = "F" if array.flags.fnc else "C"
    data: Any = array.ravel(order).view(np.uint8)
    return _make_array, (pickle.PickleBuffer(data), array.dtype, array.shape, order)


def _make_array(data: Any, dtype: Any, shape: tuple[int, ...], order: Any) -> Any:
    return np.frombuffer(data, dtype).reshape(shape, order=order).copy(order)


def _reduce_generator(value: torch.Generator) -> Any:
    return _make_generator, (value.get_state().numpy(),)


def _make_generator(state: Any) -> torch.Generator:
    generator = torch.Generator()
    generator.set_state(torch.from_numpy(np.array(state)))
    return generator


def _reduce_code(code: types.CodeType) -> Any:
    """Code with its file name, which cloudpickle from 3.1.3 omits; with it, a worker's traceback shows the user's lines."""
    make, parts = cloudpickle.cloudpickle._code_reduce(code)
    return _make_code, (code.co_filename, make, parts)


def _make_code(file: str, make: Callable[..., types.CodeType], parts: Any) -> types.CodeType:
    return make(*parts).replace(co_filename=file)


def _reduce_tracked(value: Any) -> Any:
    content = list(value.items()) if isinstance(value, dict) else list(value)
    # The content is set after the object exists, because it may refer to the object.
    return type(value), (), (value.tracker, content), None, None, _fill_tracked


def _fill_tracked(value: Any, state: tuple[Any, list[Any]]) -> None:
    """Fill a tracked container without its tracking methods: everything in it is tracked already."""
    tracker, content = state
    if isinstance(value, OrderedDict):
        for key, part in content:
            OrderedDict.__setitem__(value, key, part)
    elif isinstance(value, dict):
        dict.update(value, content)
    elif isinstance(value, list):
        list.extend(value, content)
    else:
        set.update(value, content)
    value.tracker = tracker


def _reduce_table(table: Any) -> Any:
    """TensorFlow's table of a vocabulary, which Keras's lookup layers hold on each backend."""
    keys, values = table.export()
    return _make_table, (keys.numpy(), values.numpy(), table._default_value.numpy())


def _make_table(keys: Any, values: Any, default: Any) -> Any:
    import tensorflow as tf

    kinds = {"key_dtype": tf.as_dtype(keys.dtype), "value_dtype": tf.as_dtype(values.dtype)}
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values, **kinds), default)


def _reduce_callback(callback: Any) -> Any:
    """A user's callback with its data, which a loss may read. The callback itself runs only in the caller's process."""
    if not is_users(type(callback).__module__):
        return _nothing, ()
    return (
        object.__new__,
        (type(callback),),
        {name: value for name, value in vars(callback).items() if travels_with_callback(value)},
    )


def travels_with_callback(value: Any) -> bool:
    """Whether an attribute of a callback or a tensor is data, which other code may read."""
    return is_plain(value) or isinstance(value, (keras.Variable, torch.Tensor))


def _reduce_cache(cached: Any) -> Any:
    """A cached function; if other processes cannot import it, it is sent with an empty cache."""
    if can_import(cached.__module__) and "<locals>" not in cached.__qualname__:
        return cached.__reduce__()  # its name
    return _make_cache, (cached.__wrapped__, cached.cache_parameters())


def _make_cache(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _reduce_c_array(array: Any) -> Any:
    return _make_c_array, (array._type_, array._length_, bytes(array))


def _make_c_array(kind: Any, length: int, data: bytes) -> Any:
    return (kind * length).from_buffer_copy(data)


def _reduce_weak_dict(value: Any) -> Any:
    return _make_weak, (type(value), dict(value.items()))


def _make_weak(kind: Any, content: Any) -> Any:
    made = kind(content)
    made._abreast_content = content  # in the caller's process something else holds it
    return made


def _reduce_logger(logger: logging.Logger) -> Any:
    """A logger with the settings of its parents, on which its level depends."""
    chain: list[Any] = [logger]
    while chain[-1].parent is not None:
        chain.append(chain[-1].parent)
    settings = [(each.name, each.level, each.disabled, each.propagate) for each in chain]
    own = {
        name: value for name, value in vars(logger).items() if name not in _OF_LOGGERS and travels_with_callback(value)
    }
    return _make_logger, (logger.name, settings), own, None, None, _set_attributes


_OF_LOGGERS = vars(logging.getLogger())  # the names of the attributes of every logger


def _make_logger(name: str, chain: list[tuple[str, int, bool, bool]]) -> logging.Logger:
    for each, level, disabled, propagate in chain:
        logger = logging.getLogger(each)
        logger.setLevel(level)
        logger.disabled, logger.propagate = disabled, propagate
    return logging.getLogger(name)


def _reduce_enum(kind: Any) -> Any:
    """An `Enum` sent by value. cloudpickle omits second names of members, and what `__new__` and `__init__` gave them."""
    _, arguments, (own, slots), *_ = cloudpickle.cloudpickle._dynamic_class_reduce(kind)
    bases, name, qualified, _, module, tracker, extra = arguments
    get = getattr(kind._member_type_, "__getnewargs__", None)
    contents = {each: get(member) if get else member.value for each, member in kind.__members__.items()}
    attributes = {each: vars(member) for each, member in kind.__members__.items()}
    state = {each: value for each, value in own.items() if each not in contents}, slots
    make = cloudpickle.cloudpickle._make_skeleton_enum
    return make, (bases, name, qualified, contents, module, tracker, extra), (state, attributes), None, None, _fill_enum


def _fill_enum(kind: Any, content: tuple[Any, dict[str, dict[str, Any]]]) -> None:
    state, attributes = content
    cloudpickle.cloudpickle._class_setstate(kind, state)
    for name, own in attributes.items():
        member = kind._member_map_[name]
        vars(member).clear()
        vars(member).update(own)
    kind._value2member_map_.clear()
    for member in kind._member_map_.values():
        with suppress(TypeError):  # a value without a hash; Python then searches the members
            kind._value2member_map_[member.value] = member


def _make_event(is_set: bool) -> threading.Event:
    event = threading.Event()
    if is_set:
        event.set()
    return event


def _make_local(kind: Any) -> Any:
    return kind.__new__(kind)


class _HoldingReference(weakref.ref[Any]):
    """A weak reference in a worker: in rank 0's process, something outside the model holds the target."""

    __slots__ = ("held",)
    held: Any


def _weak(target: Any) -> Any:
    if target is None:
        return _nothing
    reference = _HoldingReference(target)
    reference.held = target
    return reference


def _same(value: Any) -> Any:
    return value


def _nothing() -> None:
    return None


_REDUCERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (keras.callbacks.Callback, _reduce_callback),
    (DistributedDataParallel, lambda wrapper: (_nothing, ())),
    (torch._dynamo.eval_frame.OptimizedModule, lambda compiled: (_same, (compiled._orig_mod,))),
    (torch.Generator, _reduce_generator),
    (np.ndarray, _reduce_array),
    (types.CodeType, _reduce_code),
    (functools._lru_cache_wrapper, _reduce_cache),
    # In a copy without attributes, its `__getattr__` would call itself without end.
    (DynamicBackend, lambda dynamic: (DynamicBackend, (dynamic.name,))),
    (type(threading.Lock()), lambda lock: (threading.Lock, ())),
    (type(threading.RLock()), lambda lock: (threading.RLock, ())),
    (logging.Logger, _reduce_logger),
    (ctypes.Array, _reduce_c_array),
    (contextvars.ContextVar, lambda variable: (contextvars.ContextVar, (variable.name,))),  # its value follows
    (threading.local, lambda local: (_make_local, (type(local),), dict(vars(local)), None, None, _set_attributes)),
    (threading.Event, lambda event: (_make_event, (event.is_set(),))),
    (threading.Condition, lambda condition: (threading.Condition, (condition._lock,))),
    (weakref.ref, lambda reference: (_weak, (reference(),))),
    ((weakref.WeakKeyDictionary, weakref.WeakValueDictionary), _reduce_weak_dict),
    (weakref.WeakSet, lambda weak: (_make_weak, (type(weak), list(weak)))),
)
