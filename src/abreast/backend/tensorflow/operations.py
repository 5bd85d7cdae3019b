"""The operations of a traced graph: those that draw random numbers, and those that call the user's Python."""

from __future__ import annotations

from typing import Any

from abreast.backend.tensorflow.processes import OWN_PYTHON

_RANDOM = ("Random", "Multinomial", "TruncatedNormal", "StandardNormal", "StatefulUniform")
_PYTHON = ("PyFunc", "EagerPyFunc")


def draws(graph: Any) -> bool:
    """Whether a traced step, or a function in it, has an operation that draws random numbers, for TensorFlow or for Keras."""
    return any(_is_random(kind) for kind, _ in _operations(graph))


def draws_without_seed(operation: Any) -> bool:
    """Whether an operation draws different numbers on each replica: it has no seed from outside, as those of Keras have."""
    return _is_random(operation.type) and not operation.type.startswith("Stateless")


def calls_python(graph: Any) -> bool:
    """Whether a traced step has a `tf.py_function` or `tf.numpy_function` of the user that may keep a state."""
    return any(kind in _PYTHON and OWN_PYTHON not in name for kind, name in _operations(graph))


def _is_random(kind: str) -> bool:
    return any(word in kind for word in _RANDOM)


def _operations(graph: Any) -> set[tuple[str, str]]:
    """The types and names of the operations of a graph and of the functions in it."""
    functions = graph.as_graph_def(add_shapes=False).library.function
    own = {(operation.type, operation.name) for operation in graph.get_operations()}
    return own | {(node.op, node.name) for function in functions for node in function.node_def}
