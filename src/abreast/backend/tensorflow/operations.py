"""The operations of a traced graph: those that draw random numbers, call the user's Python, or decide by values of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from abreast.backend.tensorflow.processes import OWN_PYTHON

_RANDOM = ("Random", "Multinomial", "TruncatedNormal", "StandardNormal", "StatefulUniform")
_PYTHON = ("PyFunc", "EagerPyFunc")
_CONDITIONS = ("If", "StatelessIf", "Case", "StatelessCase")
OF_SHAPES = ("Shape", "ShapeN", "Size", "Rank")
_ASSERTION = "AssertGuard"
_SETTING = re.compile("Assign|Resource(Scatter|Apply|SparseApply)")
_SETS = "_abreast_sets"  # an attribute of a concrete function: what `sets_variables` has found


def draws(graph: Any) -> bool:
    """Whether a traced step, or a function in it, has an operation that draws random numbers, for TensorFlow or for Keras."""
    return any(_is_random(kind) for kind, _ in _operations(graph))


def draws_without_seed(operation: Any) -> bool:
    """Whether an operation draws different numbers on each replica, because it has no explicit seed; Keras passes one."""
    return _is_random(operation.type) and not operation.type.startswith("Stateless")


def calls_python(graph: Any) -> bool:
    """Whether a traced step has a `tf.py_function` or `tf.numpy_function` of the user that may keep a state."""
    return any(kind in _PYTHON and OWN_PYTHON not in name for kind, name in _operations(graph))


def sets_variables(function: Any) -> bool:
    """Whether a concrete function, or one that it calls, assigns to a variable."""
    known = getattr(function, _SETS, None)
    if known is None:
        known = any(_SETTING.search(kind) for kind, _ in _operations(function.graph))
        setattr(function, _SETS, known)
    return bool(known)


def decides_by_own_rows(graph: Any, shards: Sequence[Sequence[Any]], num_replicas: int) -> bool:
    """Whether a condition of a traced step (`cond`, `switch_case`) depends on numbers of some replicas' rows, not of all.

    `shards`: the arrays of each replica of this process, which come before those of others among `num_replicas`. Conditions on
    shapes, and those of assertions, do not count.
    """
    place = {id(tensor.op): number for number, shard in enumerate(shards) for tensor in shard}
    elsewhere = set(range(len(shards), num_replicas))
    return any(
        0 < len(_replicas_behind(operation.inputs[0].op, place, elsewhere)) < num_replicas
        for operation in graph.get_operations()
        if operation.type in _CONDITIONS and _ASSERTION not in operation.name
    )


def _replicas_behind(operation: Any, place: dict[int, int], elsewhere: set[int]) -> set[int]:
    """The numbers of the replicas whose arrays an operation reads; after an exchange, also those in other processes."""
    found: set[int] = set()
    for each in behind(operation, lambda each: () if each.type in OF_SHAPES else each.inputs):
        if each.type in _PYTHON and OWN_PYTHON in each.name:
            found |= elsewhere
        if id(each) in place:
            found.add(place[id(each)])
    return found


def behind(operation: Any, inputs: Callable[[Any], Sequence[Any]]) -> Iterator[Any]:
    """An operation and all those with whose results it computes; `inputs` of an operation are the tensors that count."""
    seen, todo = {id(operation)}, [operation]
    while todo:
        each = todo.pop()
        yield each
        new = [tensor.op for tensor in inputs(each) if id(tensor.op) not in seen]
        seen.update(map(id, new))
        todo += new


def _is_random(kind: str) -> bool:
    return any(word in kind for word in _RANDOM)


def _operations(graph: Any) -> set[tuple[str, str]]:
    """The types and names of the operations of a graph and of the functions in it."""
    functions = graph.as_graph_def(add_shapes=False).library.function
    own = {(operation.type, operation.name) for operation in graph.get_operations()}
    return own | {(node.op, node.name) for function in functions for node in function.node_def}
