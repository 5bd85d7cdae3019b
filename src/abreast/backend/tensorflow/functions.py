"""Functions under `tf.function` that a step over several devices calls: their Python runs as part of the step.

Replicas cannot exchange values inside a separate graph, and a graph made earlier keeps the variables of one replica. Arguments,
results and converted `if` and `for` are the same as in `tf.function`. Not here: steps (`step.py`), and the callers of `inlined`
(`turns.py`, `probe.py`).
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.autograph.core.ag_ctx import ControlStatusCtx, Status
from tensorflow.python.autograph.impl.api import StagingError
from tensorflow.python.eager.polymorphic_function.autograph_util import py_func_from_autograph
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from abreast.backend.tensorflow import lost_parts
from abreast.backend.tensorflow.operations import sets_variables
from abreast.errors import AbreastError, ModelError
from abreast.exact import untracked
from abreast.keras_private import attached

OWNER = "_abreast_owner"  # an attribute of a plain variable: the `Variables` that copies its value to the other devices
_LIBRARIES = ("tensorflow.", "keras.")  # functions of these exchange nothing between replicas
_thread = threading.local()


@functools.cache
def install() -> None:
    """Make TensorFlow's functions check whether a step calls them. Runs once."""
    Function.__call__ = _unless_outside(Function.__call__, _run)
    # Functions of SavedModels call `_call_flat` alone. `__call__` would hide an error in it.
    for name in ("__call__", "_call_flat"):
        setattr(ConcreteFunction, name, _unless_outside(getattr(ConcreteFunction, name), _checked))


@contextmanager
def inlined(num_replicas: int) -> Iterator[None]:
    """Inside, functions that this thread calls run as Python in the calling graph."""
    before = getattr(_thread, "num_replicas", 0)
    _thread.num_replicas = num_replicas
    try:
        yield
    finally:
        _thread.num_replicas = before


def in_a_step() -> bool:
    """Whether this thread is inside `inlined`."""
    return bool(getattr(_thread, "num_replicas", 0))


def _unless_outside(plain: Callable[..., Any], called: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        if not in_a_step():
            with _own_errors():
                return plain(function, *args, **kwargs)
        return called(plain, function, args, kwargs)

    return call


def _run(plain: Callable[..., Any], function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function under `tf.function` as Python."""
    if str(getattr(inspect.unwrap(function.python_function), "__module__", "")).startswith(_LIBRARIES):
        return plain(function, *args, **kwargs)
    args, kwargs = tf.nest.map_structure(_argument, _signed(function, args, kwargs))
    with lost_parts.noting(function, args, kwargs), _own_errors(), _autograph(function) as python:
        return tf.nest.map_structure(_result, python(*args, **kwargs))


@contextmanager
def _own_errors() -> Iterator[None]:
    """Raise our errors unchanged: AutoGraph wraps each error of an unknown type in an error of its own."""
    try:
        yield
    except StagingError as error:
        if isinstance(error.__context__, AbreastError):
            raise error.__context__ from None
        raise


@contextmanager
def _autograph(function: Any) -> Iterator[Callable[..., Any]]:
    """The Python code of a function. In a graph, `if` and `for` on tensors become operations, except with `autograph=False`."""
    python, options = function.python_function, function._experimental_autograph_options
    if tf.executing_eagerly():
        yield python
        return
    status = Status.ENABLED if function._autograph else Status.DISABLED
    with ControlStatusCtx(status=status, options=options):
        yield py_func_from_autograph(python, options) if function._autograph else python


def _signed(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, converted to tensors of the types in the function's `input_signature`, if it has one."""
    signature = function.input_signature
    if signature is None:
        return args, kwargs
    bound = inspect.signature(function.python_function).bind(*args, **kwargs)
    signed = [tf.nest.map_structure(_typed, spec, value) for spec, value in zip(signature, bound.args, strict=False)]
    return (*signed, *bound.args[len(signed) :]), bound.kwargs


def _typed(spec: Any, value: Any) -> Any:
    return tf.convert_to_tensor(value, spec.dtype) if isinstance(spec, tf.TensorSpec) else value


def _argument(leaf: Any) -> Any:
    return tf.convert_to_tensor(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else _apart(leaf)


def _result(leaf: Any) -> Any:
    if leaf is None or isinstance(leaf, (tf.TensorArray, tf.__internal__.CompositeTensor)):
        return leaf
    return _apart(tf.convert_to_tensor(leaf))


def _apart(leaf: Any) -> Any:
    """A tensor without what Keras attached to it, as a separate graph would return it."""
    return tf.identity(leaf) if tf.is_tensor(leaf) and attached.has_any(leaf) else leaf


def _checked(plain: Callable[..., Any], function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a concrete function, which has no Python code any more, of a user or of a SavedModel.

    Raises `ModelError` if it would make a difference that all replicas use the first device's copy of its variables.
    """
    if _thread.num_replicas > 1:
        if sets_variables(function):
            raise untracked("a variable in a concrete function")
        for variable in function.variables:
            owner = getattr(variable, OWNER, None)
            if owner is not None and not ((variables := owner()) and variables.is_of_saved_model(variable)):
                raise ModelError(
                    f"a step calls a concrete function that holds the variable {variable.name}: every replica would use the "
                    "first device's copy",
                    "call the tf.function itself, not what its get_concrete_function() returns",
                )
    return plain(function, *args, **kwargs)
