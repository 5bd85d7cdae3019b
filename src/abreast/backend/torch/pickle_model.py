"""A Keras model of the PyTorch backend as bytes, for another process that runs the same Python (`unpickle_model.py`).

Keras's own pickling uses a `.keras` file, which cannot hold classes and functions of the user's script, losses, or a
`train_step`. Here every object keeps its attributes. Objects of Keras and of `torch.nn` are written one by one, and refer to
others by number: deep models need no deep recursion, and circular references work. Code that the other process cannot
import, such as that of `__main__`, is sent by value (cloudpickle), other code by name. Not here: tensors, locks and other
objects with a rule of their own (`pickle_objects.py`).
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import cloudpickle
import keras
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.parametrize import is_parametrized

from abreast import exact
from abreast.backend.torch import modules_by_path
from abreast.backend.torch.memory import identity_of_storage
from abreast.backend.torch.pickle_objects import reducer
from abreast.backend.torch.python_same import is_plain
from abreast.backend.torch.users_code import is_users
from abreast.errors import ModelError
from abreast.keras_private.models import Function, Functional, KerasSaveable, KerasTensor, Node
from abreast.keras_private.optimizers import OF_WEIGHT_DECAY, BaseOptimizer
from abreast.keras_private.tracking import Tracker
from abreast.keras_private.trainers import BaseTrainer
from abreast.users_functions import full_cells, globals_read, slot_values

_OF_STEPS = ("abreast.keras_fit", "abreast.keras_private.epochs")
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
_HASHED = (dict, set, WeakKeyDictionary, WeakSet)
_NUMBERED = (KerasSaveable, keras.Variable, KerasTensor, Node, Tracker, torch.nn.Module)


def dump_model(model: Any, beside: Sequence[Any] = ()) -> bytes:
    """A model with all of its state: weights, optimizer, compiled losses and metrics, and the user's own code.

    Attributes whose name starts with `_abreast` are left out, and so are compiled functions, callbacks and gradients.
    The values of `beside` that can be sent are included, and may refer to the same objects: see `load_model_and`.
    """
    return _Writer().write(model, [each for each in beside if can_travel(each)])


def as_bytes(value: Any) -> bytes | None:
    """A value as bytes to compare; None if it cannot be pickled. Objects of Keras and torch modules count by identity."""
    try:
        return _GlanceWriter().write_one(value)
    except Exception:  # any error of the user's own `__reduce__`
        return None


class UnknownObject(Exception):
    """A change contains a layer, variable or torch module that the other process lacks: the model must be sent again."""


def dump_changes(changes: Sequence[Any], path_of: Callable[[Any], Any]) -> bytes:
    """Changes of `python_state.py` as bytes; an object with a `path_of` is sent as its path. Raises `UnknownObject`."""
    return _ChangeWriter(path_of).write_all(changes)


def can_travel(value: Any) -> bool:
    """Whether a change can be sent to another process."""
    if value.edit[0] == "restore" or is_plain(value.edit[-1]):
        return True
    try:
        _Writer().write(None, [value])
    except Exception:  # any error of the user's own `__reduce__`
        return False
    return True


def is_importable(value: Any) -> bool:
    """Whether another process imports this function or class instead of getting it by value."""
    _register(value.__module__)
    return bool(cloudpickle.cloudpickle._should_pickle_by_reference(value))


def _register(module_name: Any) -> None:
    """Make cloudpickle send the functions and classes of a module by value if other processes cannot import it."""
    if is_users(module_name) and module_name in sys.modules and not modules_by_path.can_import(module_name):
        cloudpickle.register_pickle_by_value(sys.modules[module_name])


class _Writer(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, protocol=pickle.HIGHEST_PROTOCOL)
        self._numbers: dict[int, int] = {}
        self._objects: list[Any] = []
        self._paths: list[str] = []
        self._path = "model"
        self._functions: list[types.FunctionType] = []
        self._weights: dict[int, Any] = {}  # those that train, by the identity of their storage
        self._by_own_hashes: dict[int, Any] = {}  # by identity: dicts and sets with keys whose class has a `__hash__`

    def write(self, model: Any, beside: Sequence[Any]) -> bytes:
        if model is not None:
            self._weights = {identity_of_storage(each._value): each for each in model.trainable_variables}
        self._dump(modules_by_path.files(), "the files of modules")
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
        self._dump([*self._by_own_hashes.values()], "keys with hashes of their own")
        return self._file.getvalue()

    def _dump(self, value: Any, path: str, content: Any = None) -> None:
        self._path = path
        try:
            self.dump(value)
        except (ModelError, UnknownObject):
            raise
        except Exception as error:
            what, its_value = self._unsendable_global() or (path, value if content is None else content)
            raise ModelError(
                f"cannot send {what} (a {type(its_value).__name__}) to the worker processes: {error}",
                "create it in `build` or `call`, keep it out of the model, or give its class a `__reduce__`",
            ) from error

    def _unsendable_global(self) -> tuple[str, Any] | None:
        """The global variable that the last functions read and that cannot be sent, in words, and its value."""
        for function in reversed(self._functions):
            for name in globals_read(function.__code__):
                value = function.__globals__.get(name)
                if name != "__builtins__" and not (
                    is_plain(value) or isinstance(value, (type, *_FUNCTIONS)) or as_bytes(value) is not None
                ):
                    return f"the global {name} that {function.__qualname__} reads", value
        return None

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, _HASHED) and any(map(_has_own_hash, {*map(type, value)})):
            self._by_own_hashes[id(value)] = value
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
        name = value.get("__name__")  # None for code that PyTorch writes
        if number is None or name is None or not is_users(name):
            return None
        is_module = modules_by_path.can_import(name) and id(vars(sys.modules[name])) == number
        return "namespace", name, None if is_module else number, tuple(value.items())

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type | types.FunctionType):
            _register(value.__module__)
        if isinstance(value, types.FunctionType) and is_users(value.__module__):
            self._functions.append(value)
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            self._refuse_tied(value)
        reduce = reducer(value)
        return super().reducer_override(value) if reduce is None else reduce(value)

    def _refuse_tied(self, tensor: torch.Tensor) -> None:
        """Refuse a tensor in the memory of a weight, or whose gradient always leads to it: a copy would not follow the weight."""
        weight = self._weights.get(identity_of_storage(tensor))
        weight = self._weight_behind(tensor) if weight is None else weight
        if weight is not None and tensor is not weight._value and tensor.numel():
            raise ModelError(
                f"{self._path} holds a tensor that is tied to the weight {weight.path}: each device has a process with "
                "weights of its own, and this tensor would not follow them there",
                "compute it from the weight in the `call` of a layer, such as `keras.layers.Lambda`; or copy it without its "
                "gradient, if it is to stay as it is: `keras.ops.stop_gradient(keras.ops.copy(weight))`",
            )

    def _weight_behind(self, tensor: torch.Tensor) -> Any:
        """A weight that a tensor's gradient leads to at each backward pass, through operations that keep no tensors for one."""
        found, todo = None, [tensor.grad_fn]
        while todo:
            node: Any = todo.pop()
            if node is None:
                continue
            if hasattr(node, "variable"):
                found = self._weights.get(identity_of_storage(node.variable)) if found is None else found
            elif not node.name().startswith(_KEEPING_NOTHING):
                return None
            todo += [each for each, _ in node.next_functions]
        return found


# The beginnings of their names.
_KEEPING_NOTHING = (
    *("AddBackward", "Alias", "AsStrided", "Clone", "Expand", "Neg", "Permute", "ReshapeAlias", "Select"),
    *("Slice", "Squeeze", "SubBackward", "TBackward", "ToCopy", "Transpose", "UnsafeView", "Unsqueeze", "View"),
)


class _ChangeWriter(_Writer):
    def __init__(self, path_of: Callable[[Any], Any]) -> None:
        super().__init__()
        self._path_of = path_of

    def write_all(self, changes: Sequence[Any]) -> bytes:
        self._dump(modules_by_path.files(), "the files of modules")
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


class _GlanceWriter(_Writer):
    def write_one(self, value: Any) -> bytes:
        self.dump(value)
        return self._file.getvalue()

    def persistent_id(self, value: Any) -> Any:
        return id(value) if isinstance(value, _NUMBERED) and not isinstance(value, type) else None


def _has_own_hash(kind: Any) -> bool:
    """Whether a class is the user's and has a `__hash__`, which it may not have yet while another process makes a key."""
    return kind.__hash__ is not object.__hash__ and is_users(kind.__module__)


def _is_compiled(value: Any) -> bool:
    return "_orig_mod" in getattr(value, "__dict__", {}).get("_modules", {})


def _state(value: Any) -> dict[str, Any]:
    """The attributes of one object, except attributes that only this process can use."""
    own = getattr(type(value), "__getstate__", None) is not getattr(object, "__getstate__", None)
    # That of a parametrized module raises an error: the module has a class of its own, which a file should not hold.
    refuses = isinstance(value, torch.nn.Module) and is_parametrized(value)
    state = value.__getstate__() if own and not refuses else value.__dict__
    if not isinstance(state, dict):
        return {"__state__": state}
    kept = {name: part for name, part in state.items() if not str(name).startswith("_abreast")}
    if isinstance(value, BaseTrainer):
        kept = {name: part for name, part in kept.items() if not _runs_steps(part)}
        kept |= {name: None for name in exact.left_by_calls(value) if name in kept}
    if isinstance(value, keras.Layer):
        kept |= {"_losses": [], "_loss_ids": set()} if "_loss_ids" in kept else {}
    for name in _identities(value):
        kept.pop(name, None)
    if isinstance(value, BaseOptimizer):
        kept["_abreast_without_decay"] = _without_decay(value)
    return kept | slot_values(value)


def _runs_steps(value: Any) -> bool:
    """Whether a value is a function that runs steps, such as a `train_function`, or one of the user's around it."""
    if not isinstance(value, types.FunctionType):
        return False
    functions = (value, *(cell.cell_contents for cell in full_cells(value)))
    return any(isinstance(each, types.FunctionType) and each.__module__ in _OF_STEPS for each in functions)


def _without_decay(optimizer: Any) -> list[int]:
    """Indices, among an optimizer's weights, of the weights that a script excluded from weight decay."""
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
