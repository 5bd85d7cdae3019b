"""Detection of the user's Python in a step that runs eagerly: no graph shows what it reads.

Numbers that are computed from the rows are followed from operation to operation, so that a count of steps, a learning rate or a
shape may be read. Not here: tensors that NumPy reads by itself (`exact/unseen_reads.py`).
"""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework import op_callbacks
from tensorflow.python.framework import ops as framework_ops

from abreast import exact
from abreast.backend.tensorflow.operations import OF_SHAPES, is_of_shared_resource
from abreast.keras_private.backend import functions

_thread = threading.local()
# Code that reads a tensor for its caller.
_FOR_OTHERS = (
    *("tensorflow.python.framework.ops", "tensorflow.python.framework.tensor_util"),
    *("keras.src.ops.", "keras.src.backend.", "keras.src.utils.", "functools"),
)
_NOT_USERS = ("abreast.", "keras.", "tensorflow.", "numpy.")
_BRANCHES = (
    *("tensorflow.python.framework.smart_cond", "tensorflow.python.ops.cond", "tensorflow.python.ops.while_loop"),
    *("tensorflow.python.ops.control_flow_case", "tensorflow.python.ops.control_flow_switch_case"),
)
_TEXTS = {"__repr__", "__str__", "__format__", "value_text", "numpy_text"}  # functions that print a tensor
_OF_NO_ROWS = {*OF_SHAPES, "ZerosLike", "OnesLike"}


class EagerWatch:
    """`reads_rows`: whether the user's code read numbers that depend on the rows, by which it may decide.

    `shares_resources`: whether a step uses an iterator, a table or a queue. `read_early`: a layer among the `unbuilt` ones whose
    weights the code asked for before it called the layer.
    """

    def __init__(self, unbuilt: frozenset[int] = frozenset()) -> None:
        """`unbuilt`: identities of layers that had no weights when the user's code called `fit`."""
        self._unbuilt = unbuilt
        self.read_early: Any = None
        self.reads_rows = self.shares_resources = False
        self._of_rows: dict[int, Any] = {}  # kept alive, so that no other tensor gets the same identity

    def note_rows(self, tensors: Iterable[Any]) -> None:
        self._of_rows |= {id(each): each for each in tensors}

    @contextmanager
    def watching(self) -> Iterator[None]:
        _install()
        op_callbacks.add_op_callback(self._note_operation)
        _thread.watch = self
        try:
            yield
        finally:
            _thread.watch = None
            op_callbacks.remove_op_callback(self._note_operation)
            self._of_rows.clear()

    def _note_operation(self, kind: Any, inputs: Any, attributes: Any, outputs: Any, *_: Any, **__: Any) -> None:
        name = kind.decode() if isinstance(kind, bytes) else str(kind)
        self.shares_resources = self.shares_resources or is_of_shared_resource(name)
        if name not in _OF_NO_ROWS and any(map(self._is_of_rows, tf.nest.flatten(inputs))):
            self.note_rows(tf.nest.flatten(outputs))

    def note_read(self, tensor: Any) -> None:
        self.reads_rows = self.reads_rows or (self._is_of_rows(tensor) and _is_for_user(sys._getframe(2)))

    def _is_of_rows(self, tensor: Any) -> bool:
        """Whether a tensor depends on the rows; the result of a metric is in a step that of all rows."""
        return id(tensor) in self._of_rows and not exact.is_result(tensor)

    def note_weights(self, layer: Any) -> None:
        run = exact.running()
        if id(layer) in self._unbuilt and run is not None and _is_for_user(sys._getframe(2)):
            is_called = any(run.members[number] is layer for number, _ in run.callers)
            self.read_early = self.read_early if is_called else layer


def _is_for_user(frame: types.FrameType | None) -> bool:
    """Whether the user's code, or a condition in it, asks for a value."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if frame.f_code.co_name in _TEXTS:
            return False
        if not name.startswith(_FOR_OTHERS):
            return name.startswith(_BRANCHES) or not name.startswith(_NOT_USERS)
        frame = frame.f_back
    return False


@functools.cache
def _install() -> None:
    """Let TensorFlow's and Keras's functions that read a tensor tell the watch of their thread. Runs once."""
    base: Any = framework_ops._EagerTensorBase
    base._numpy = _noting(base._numpy, EagerWatch.note_read)
    of_keras: Any = functions
    of_keras.convert_to_numpy = _noting(of_keras.convert_to_numpy, EagerWatch.note_read)
    for name in ("trainable_variables", "trainable_weights"):
        setattr(keras.Layer, name, property(_noting(getattr(keras.Layer, name).fget, EagerWatch.note_weights)))


def _noting(plain: Callable[..., Any], note: Callable[[EagerWatch, Any], None]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def noted(subject: Any, *arguments: Any) -> Any:
        if (watch := getattr(_thread, "watch", None)) is not None:
            note(watch, subject)
        return plain(subject, *arguments)

    return noted
