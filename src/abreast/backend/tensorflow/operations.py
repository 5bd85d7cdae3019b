"""The operations of a traced graph: those that draw random numbers, call the user's Python, or decide by values of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from abreast.backend.tensorflow.processes import OWN_PYTHON

_RANDOM = ("Random", "Multinomial", "TruncatedNormal", "StandardNormal", "StatefulUniform")
_PYTHON = ("PyFunc", "EagerPyFunc")
_CONDITIONS = ("If", "StatelessIf", "Case", "StatelessCase")
_LOOPS = ("While", "StatelessWhile")
# Operations of iterators, tables and queues, each of which all replicas share.
_SHARED = re.compile("IteratorGetNext|LookupTable(Insert|Remove|Import)|Queue(Dequeue|Enqueue)|Stack(Pop|Push)V")
OF_SHAPES = ("Shape", "ShapeN", "Size", "Rank")
_ASSERTION = "AssertGuard"
_GRADIENT = "gradient_tape"  # the loop of its values is in the same graph
_RECURRENT = "keras/src/backend/tensorflow/rnn.py"
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


def shares_resources(graph: Any) -> bool:
    """Whether a traced step has operations of an iterator, a table or a queue, which replicas share."""
    return any(is_of_shared_resource(kind) for kind, _ in _operations(graph))


def is_of_shared_resource(kind: str) -> bool:
    return _SHARED.search(kind) is not None


def sets_variables(function: Any) -> bool:
    """Whether a concrete function, or one that it calls, assigns to a variable."""
    known = getattr(function, _SETS, None)
    if known is None:
        known = any(_SETTING.search(kind) for kind, _ in _operations(function.graph))
        setattr(function, _SETS, known)
    return bool(known)


def decides_by_own_rows(graph: Any, shards: Sequence[Sequence[Any]], num_replicas: int) -> bool:
    """Whether a condition (`cond`, `while_loop`) of a traced step depends on numbers of some replicas' rows, not of all.

    `shards`: the arrays of each replica of this process, which come before those of others among `num_replicas`. Conditions on
    shapes, and those of assertions, do not count.
    """
    place = {id(tensor.op): number for number, shard in enumerate(shards) for tensor in shard}
    elsewhere = set(range(len(shards), num_replicas))
    return any(
        0 < len(_replicas_behind(decider, place, elsewhere)) < num_replicas
        for operation in graph.get_operations()
        if operation.type in _CONDITIONS or (operation.type in _LOOPS and not _is_of_keras(operation))
        if _ASSERTION not in operation.name
        for decider in _deciders(operation)
    )


def _is_of_keras(loop: Any) -> bool:
    """Whether a loop is that of a recurrent layer, which masks the steps that a row does not need, or of a gradient."""
    return _GRADIENT in loop.name or any(frame.filename.endswith(_RECURRENT) for frame in loop.traceback)


def _deciders(operation: Any) -> list[Any]:
    """The operations whose results a condition or a loop decides by."""
    if operation.type in _CONDITIONS:
        return [operation.inputs[0].op]
    functions = [operation.graph._get_function(operation.get_attr(name).name) for name in ("cond", "body")]
    condition, body = (getattr(function, "graph", None) for function in functions)
    if condition is None or body is None:  # made by TensorFlow's own code, as for a loss over sequences
        return []
    found: set[int] = set()
    todo = _read_by(condition, condition.outputs[0])
    while todo:
        found |= todo
        todo = set().union(*(_read_by(body, body.outputs[number]) for number in todo)) - found
    return [operation.inputs[number].op for number in found]


def _read_by(graph: Any, output: Any) -> set[int]:
    """The numbers of the inputs of a function's graph by whose values an output is computed."""
    place = {id(tensor.op): number for number, tensor in enumerate(graph.inputs)}
    return {place[id(each)] for each in behind(output.op, _values_read) if id(each) in place}


def _values_read(operation: Any) -> Sequence[Any]:
    return () if operation.type in OF_SHAPES else operation.inputs


def _replicas_behind(operation: Any, place: dict[int, int], elsewhere: set[int]) -> set[int]:
    """The numbers of the replicas whose arrays an operation reads; after an exchange, also those in other processes."""
    found: set[int] = set()
    for each in behind(operation, _values_read):
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
