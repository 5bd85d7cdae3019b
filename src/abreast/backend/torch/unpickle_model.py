"""The model that `pickle_model.py` wrote as bytes, in another process, and later changes of it."""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import keras
import torch

from abreast.backend.torch import modules_by_path
from abreast.errors import ModelError
from abreast.keras_private.models import Function, Functional, inject_functional_model_class, make_node_key
from abreast.keras_private.optimizers import BaseOptimizer, identify_variables
from abreast.keras_private.torch import get_device
from abreast.keras_private.tracking import Tracker


def load_model_and(data: bytes, device: str | None = None) -> tuple[Any, list[Any]]:
    """The model of `dump_model`, with every tensor on `device` (by default, on Keras's device), and the values of `beside`.

    Raises `ModelError` for an object that its class does not make again.
    """
    with keras.device(device or get_device()):
        try:
            return _Reader(io.BytesIO(data)).read()
        except Exception as error:  # any error of the user's own `__new__` or `__setstate__`
            raise ModelError(
                f"cannot make again, in a worker process, an object that the model or its code holds: {type(error).__name__}: "
                f"{error}",
                "give the object's class a `__reduce__`, or keep the object out of the model and its modules",
            ) from error


def load_changes(data: bytes, at: Callable[[Any], Any]) -> list[Any]:
    """The changes of `dump_changes`; `at` finds the object of a path."""
    with keras.device(get_device()):
        return _ChangeReader(io.BytesIO(data), at).load_all()


def namespace(name: str, number: int | None) -> dict[str, Any]:
    """The globals of the caller's functions in this process: a module's, or by number those of one that nothing can import."""
    return vars(importlib.import_module(name) if number is None else made_module(name, number))


def made_module(name: str, number: int) -> types.ModuleType:
    """This process's module for one of the caller's that nothing can import, such as its `__main__`."""
    if (name, number) not in _MADE:
        module = _MADE[name, number] = types.ModuleType(name)
        if all(module is each for (known, _), each in _MADE.items() if known == name):
            _REPLACED.append(sys.modules.get(name))
            sys.modules[name] = module
    return _MADE[name, number]


_MADE: dict[tuple[str, int], types.ModuleType] = {}
_REPLACED: list[Any] = []  # Python clears the globals of a module that nothing holds


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._objects: dict[int, Any] = {}

    def read(self) -> tuple[Any, list[Any]]:
        modules_by_path.load_from(self.load())
        model = self.load()
        beside = self.load()
        number = 0
        while (names := self.load()) is not None:
            _set_state(self._objects[number], {name: self.load() for name in names})
            number += 1
        for value in self._objects.values():
            _restore_identities(value)
        for each in self.load():
            _hash_anew(each)
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
        modules_by_path.load_from(self.load())
        return [self.load() for _ in range(self.load())]

    def persistent_load(self, pid: Any) -> Any:
        return _load_namespace(*pid[1:]) if pid[0] == "namespace" else self._at(pid[1])


def _load_namespace(name: str, number: int | None, first: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    names = namespace(name, number)
    names.update((key, value) for key, value in first if names.get(key) is None)
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


def _hash_anew(container: Any) -> None:
    """Fill a dict or a set again: some of its keys had no class and no attributes yet when it was filled."""
    bases: tuple[Any, ...] = (WeakKeyDictionary, OrderedDict, dict, WeakSet, set)
    base = next(each for each in bases if isinstance(container, each))  # a class of the user's may have other methods
    entries = [*(base.items if hasattr(base, "items") else base.__iter__)(container)]
    base.clear(container)
    for entry in entries:
        base.__setitem__(container, *entry) if hasattr(base, "items") else base.add(container, entry)


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
