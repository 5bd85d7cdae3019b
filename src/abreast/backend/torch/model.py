"""A Keras model of the PyTorch backend as bytes, for another process that runs the same Python, and back.

Keras's own pickling uses a `.keras` file, which cannot hold classes and functions of the user's script, losses, or a
`train_step`. Here every object keeps its attributes. Objects of Keras and of `torch.nn` are written one by one, and refer to
others by number: deep models need no deep recursion, and circular references work. Code in `__main__` is sent by value
(cloudpickle), importable code by name.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import io
import pickle
import sys
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import keras
import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from abreast import exact
from abreast.backend.torch.python_same import is_plain
from abreast.backend.torch.users_code import is_users
from abreast.errors import ModelError
from abreast.keras_private.models import (
    DynamicBackend,
    Function,
    Functional,
    KerasSaveable,
    KerasTensor,
    Node,
    inject_functional_model_class,
    make_node_key,
)
from abreast.keras_private.optimizers import OF_WEIGHT_DECAY, BaseOptimizer, identify_variables
from abreast.keras_private.torch import get_device
from abreast.keras_private.tracking import TRACKED_ORDERED, TrackedDict, TrackedList, TrackedSet, Tracker
from abreast.keras_private.trainers import BaseTrainer

_NUMBERED = (KerasSaveable, keras.Variable, KerasTensor, Node, Tracker, torch.nn.Module)
_TRACKED: tuple[Any, ...] = (TrackedDict, TrackedList, TrackedSet, *TRACKED_ORDERED)


def dump_model(model: Any, beside: Sequence[Any] = ()) -> bytes:
    """A model with all of its state: weights, optimizer, compiled losses and metrics, and the user's own code.

    Attributes whose name starts with `_abreast` are left out, and so are compiled functions, callbacks and gradients.
    The values of `beside` that can travel are included and may refer to the same objects: see `load_model_and`.
    """
    return _Writer().write(model, [each for each in beside if can_travel(each)])


def load_model(data: bytes, device: str | None = None) -> Any:
    """The model of `dump_model`, with every tensor on `device` (by default, on Keras's device)."""
    return load_model_and(data, device)[0]


def load_model_and(data: bytes, device: str | None = None) -> tuple[Any, list[Any]]:
    """The model, and the values of `beside`."""
    with keras.device(device or get_device()):
        return _Reader(io.BytesIO(data)).read()


class UnknownObject(Exception):
    """A change contains a layer, variable or torch module that the other process lacks: the model must be sent again."""


def dump_changes(changes: Sequence[Any], path_of: Callable[[Any], Any]) -> bytes:
    """Changes of `python_state.py` as bytes; an object with a `path_of` is sent as its path. Raises `UnknownObject`."""
    return _ChangeWriter(path_of).write_all(changes)


def load_changes(data: bytes, at: Callable[[Any], Any]) -> list[Any]:
    """The changes of `dump_changes`; `at` finds the object of a path."""
    with keras.device(get_device()):
        return _ChangeReader(io.BytesIO(data), at).load_all()


def can_travel(value: Any) -> bool:
    """Whether a change can be sent to another process."""
    if value.edit[0] == "restore" or is_plain(value.edit[-1]):
        return True
    try:
        _Writer().write(None, [value])
    except Exception:  # any that the user's own `__reduce__` raises
        return False
    return True


def is_importable(value: Any) -> bool:
    """Whether another process imports this function or class instead of getting it by value."""
    return bool(cloudpickle.cloudpickle._should_pickle_by_reference(value))


def namespace(name: str, number: int | None) -> dict[str, Any]:
    """The globals of the caller's functions in this process: those of a module, or those of its `__main__`, by number."""
    if number is None:
        return vars(importlib.import_module(name))
    return _NAMESPACES.setdefault((name, number), {})


_NAMESPACES: dict[tuple[str, int], dict[str, Any]] = {}


# Writing.


class _Writer(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, protocol=pickle.HIGHEST_PROTOCOL)
        self._numbers: dict[int, int] = {}
        self._objects: list[Any] = []
        self._paths: list[str] = []
        self._path = "model"

    def write(self, model: Any, beside: Sequence[Any]) -> bytes:
        self._dump(model, "model")
        self._dump(beside, "the globals of modules")
        done = 0
        while done < len(self._objects):
            value, path = self._objects[done], self._paths[done]
            done += 1
            state = _state(value)
            # Children under the user's names first, so that a path in an error has these names and not Keras's `_layers`.
            for name, child in state.get("_modules", {}).items():
                self._path = f"{path}.{name}"
                self.persistent_id(child)
            self._dump(list(state), path)
            for name, part in state.items():
                self._dump(part, f"{path}.{name}")
        self._dump(None, "end")
        return self._file.getvalue()

    def _dump(self, value: Any, path: str, content: Any = None) -> None:
        self._path = path
        try:
            self.dump(value)
        except (ModelError, UnknownObject):
            raise
        except Exception as error:
            raise ModelError(
                f"cannot send {path} (a {type(value if content is None else content).__name__}) to the worker processes: {error}",
                "create it in `build` or `call`, keep it out of the model, or give its class a `__reduce__`",
            ) from error

    def persistent_id(self, value: Any) -> Any:
        if type(value) is dict:
            return self._namespace(value)
        if not isinstance(value, _NUMBERED) or isinstance(value, type | DistributedDataParallel):
            return None
        if _is_compiled(value):
            return None
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
            self._paths.append(self._path)
        return number, type(value), isinstance(value, Functional)

    def _namespace(self, value: dict[str, Any]) -> Any:
        """A reference to a module's globals: in the other process, too, all functions of one module share them."""
        number = next((number for number, new in self.globals_ref.items() if new is value), None)
        if number is None or not is_users(value.get("__name__")):
            return None
        name = str(value["__name__"])
        is_module = name in sys.modules and name != "__main__" and id(vars(sys.modules[name])) == number
        return "namespace", name, None if is_module else number, tuple(value.items())

    def reducer_override(self, value: Any) -> Any:
        reduce = _reducer(value)
        return super().reducer_override(value) if reduce is None else reduce(value)


class _ChangeWriter(_Writer):
    def __init__(self, path_of: Callable[[Any], Any]) -> None:
        super().__init__()
        self._path_of = path_of

    def write_all(self, changes: Sequence[Any]) -> bytes:
        self._dump(len(changes), "changes")
        for change in changes:
            self._dump((change.part, change.paths, change.edit), change.name, change.edit[-1])
        return self._file.getvalue()

    def persistent_id(self, value: Any) -> Any:
        path = self._path_of(value)
        if path is not None:
            return "path", path
        if type(value) is not dict and super().persistent_id(value) is not None:
            raise UnknownObject
        return self._namespace(value) if type(value) is dict else None


def _is_compiled(value: Any) -> bool:
    return "_orig_mod" in getattr(value, "__dict__", {}).get("_modules", {})


def _state(value: Any) -> dict[str, Any]:
    """The attributes of one object, except those that only this process can use."""
    own = getattr(type(value), "__getstate__", None) is not getattr(object, "__getstate__", None)
    state = value.__getstate__() if own else value.__dict__
    if not isinstance(state, dict):
        return {"__state__": state}
    kept = {name: part for name, part in state.items() if not (isinstance(name, str) and name.startswith("_abreast"))}
    if isinstance(value, BaseTrainer):
        kept |= {name: None for name in exact.LEFT_BY_CALLS if name in kept}
    if isinstance(value, keras.Layer):
        kept |= {"_losses": [], "_loss_ids": set()} if "_loss_ids" in kept else {}
    for name in _identities(value):
        kept.pop(name, None)
    if isinstance(value, BaseOptimizer):
        kept["_abreast_without_decay"] = without_decay(value)
    slots = [name for kind in type(value).__mro__ for name in copyreg._slotnames(kind)]  # type: ignore[attr-defined]
    return kept | {name: getattr(value, name) for name in slots if hasattr(value, name)}


def without_decay(optimizer: Any) -> list[int]:
    """Indices, among the weights that an optimizer trains, of those that a script excluded from weight decay."""
    excluded = getattr(optimizer, "_exclude_from_weight_decay", ())
    weights = getattr(optimizer, "_trainable_variables", ())
    return [index for index, weight in enumerate(weights) if optimizer._var_key(weight) in excluded]


def _identities(value: Any) -> tuple[str, ...]:
    """Attributes that hold `id`s, which have no meaning in another process; `_restore_identities` recreates them."""
    if isinstance(value, Tracker):
        return ("stored_ids",)
    if isinstance(value, BaseOptimizer):
        return ("_trainable_variables_indices", *OF_WEIGHT_DECAY)
    return ("_nodes",) if isinstance(value, Function) else ()


def _reducer(value: Any) -> Callable[[Any], Any] | None:
    if isinstance(value, torch.Tensor):
        return _reduce_tensor
    if isinstance(value, _TRACKED):
        return _reduce_tracked
    if isinstance(value, types.FunctionType) and hasattr(value, "_torchdynamo_orig_callable"):
        return lambda compiled: (_same, (compiled._torchdynamo_orig_callable,))
    if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
        # cloudpickle cannot write modules with a class of their own (`torch.ops`, `torch.backends.cudnn`).
        return None if type(value) is types.ModuleType else lambda module: (importlib.import_module, (module.__name__,))
    for kind, reduce in _REDUCERS:
        if isinstance(value, kind):
            return reduce
    return None


def _reduce_tensor(tensor: torch.Tensor) -> Any:
    flat = tensor.detach()
    parameter = isinstance(tensor, torch.nn.Parameter)
    requires_grad = tensor.requires_grad and tensor.is_leaf
    if flat.is_meta or flat.layout != torch.strided or flat.is_quantized:
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    array: Any = (
        flat.cpu().contiguous().reshape(-1).view(torch.uint8).numpy() if flat.numel() else np.zeros(0, np.uint8)
    )
    # DDP sums gradients in their memory order, so a replica's weights need the strides of the original.
    layout = (tuple(flat.shape), flat.stride() if _is_dense(flat) else None)
    return _make_tensor, (pickle.PickleBuffer(array), flat.dtype, layout, parameter, requires_grad)


def _reduce_code(code: types.CodeType) -> Any:
    """Code with its file name, which cloudpickle from 3.1.3 omits; with it, a worker's traceback shows the user's lines."""
    make, parts = cloudpickle.cloudpickle._code_reduce(code)
    return _make_code, (code.co_filename, make, parts)


def _make_code(file: str, make: Callable[..., types.CodeType], parts: Any) -> types.CodeType:
    return make(*parts).replace(co_filename=file)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the tensor is contiguous in some order of its axes."""
    order = sorted(range(tensor.dim()), key=lambda axis: (tensor.stride(axis), tensor.shape[axis]))
    return tensor.permute(order[::-1]).is_contiguous()


def _reduce_tracked(value: Any) -> Any:
    content = list(value.items()) if isinstance(value, dict) else list(value)
    # The content is set after the object exists, because it may refer to the object.
    return type(value), (), (value.tracker, content), None, None, _fill_tracked


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
    """Whether an attribute of a callback is data, which other code may read."""
    return is_plain(value) or isinstance(value, (keras.Variable, torch.Tensor))


def _reduce_cache(cached: Any) -> Any:
    """A cached function; if other processes cannot import it, it is sent with an empty cache."""
    if cached.__module__ != "__main__" and "<locals>" not in cached.__qualname__:
        return cached.__reduce__()  # its name
    return _make_cache, (cached.__wrapped__, cached.cache_parameters())


def _make_cache(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _reduce_weak_dict(value: Any) -> Any:
    return type(value), (dict(value.items()),)


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
    (threading.local, lambda local: (threading.local, ())),
    (threading.Event, lambda event: (threading.Event, ())),
    (threading.Condition, lambda condition: (threading.Condition, ())),
    (weakref.ref, lambda reference: (_weak, (reference(),))),
    ((weakref.WeakKeyDictionary, weakref.WeakValueDictionary), _reduce_weak_dict),
    (weakref.WeakSet, lambda weak: (weakref.WeakSet, (list(weak),))),
)


# Reading.


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._objects: dict[int, Any] = {}

    def read(self) -> tuple[Any, list[Any]]:
        model = self.load()
        beside = self.load()
        number = 0
        while (names := self.load()) is not None:
            _set_state(self._objects[number], {name: self.load() for name in names})
            number += 1
        for value in self._objects.values():
            _restore_identities(value)
        return model, beside

    def persistent_load(self, pid: Any) -> Any:
        if pid[0] == "namespace":
            return _load_namespace(*pid[1:])
        number, kind, functional = pid
        if number not in self._objects:
            if functional and not issubclass(kind, Functional):
                # As Keras does when a user's class is first called on tensors.
                inject_functional_model_class(kind)
            self._objects[number] = object.__new__(kind)
        return self._objects[number]


class _ChangeReader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, at: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self._at = at

    def load_all(self) -> list[Any]:
        return [self.load() for _ in range(self.load())]

    def persistent_load(self, pid: Any) -> Any:
        return _load_namespace(*pid[1:]) if pid[0] == "namespace" else self._at(pid[1])


def _load_namespace(name: str, number: int | None, first: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    names = namespace(name, number)
    for key, value in first:
        names.setdefault(key, value)
    return names


def _set_state(value: Any, state: dict[str, Any]) -> None:
    own = getattr(type(value), "__setstate__", None)
    if own is not None and own is not torch.nn.Module.__setstate__:
        own(value, state.get("__state__", state))
        return
    attributes = getattr(value, "__dict__", None)
    for name, part in state.items():
        if attributes is None or (name not in attributes and hasattr(type(value), name) and _is_slot(value, name)):
            object.__setattr__(value, name, part)
        else:
            attributes[name] = part


def _is_slot(value: Any, name: str) -> bool:
    return isinstance(getattr(type(value), name), types.MemberDescriptorType)


def _restore_identities(value: Any) -> None:
    if isinstance(value, Tracker):
        value.stored_ids = {name: {id(part) for part in store} for name, (_, store) in value.config.items()}
    elif isinstance(value, BaseOptimizer):
        variables = getattr(value, "_trainable_variables", [])
        excluded = {value._var_key(variables[index]) for index in value.__dict__.pop("_abreast_without_decay")}
        value.__dict__["_exclude_from_weight_decay"] = excluded
        identify_variables(value)
    elif isinstance(value, Function):
        nodes = [node for nodes in value._nodes_by_depth.values() for node in nodes]
        value.__dict__["_nodes"] = {
            make_node_key(node.operation, node.operation._inbound_nodes.index(node)) for node in nodes
        }


def _make_tensor(data: Any, dtype: torch.dtype, layout: Any, parameter: bool, requires_grad: bool) -> Any:
    device = get_device()
    shape, strides = layout
    if len(data):
        tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(shape).to(device)
    else:
        tensor = torch.empty(shape, dtype=dtype, device=device)
    if strides is not None and strides != tensor.stride():
        tensor = torch.empty_strided(shape, strides, dtype=dtype, device=device).copy_(tensor)
    return torch.nn.Parameter(tensor, requires_grad) if parameter else tensor.requires_grad_(requires_grad)


def _make_generator(state: Any) -> torch.Generator:
    generator = torch.Generator()
    generator.set_state(torch.from_numpy(np.array(state)))
    return generator


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


def _weak(target: Any) -> Any:
    return weakref.ref(target) if target is not None else _nothing


def _same(value: Any) -> Any:
    return value


def _nothing() -> None:
    return None
