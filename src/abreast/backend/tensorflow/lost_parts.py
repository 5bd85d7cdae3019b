"""Parts of a function under `tf.function` that plain Keras loses, because it traced the function to build the model.

Keras builds without variables: what is made, assigned or added in such a trace is not in it, and TensorFlow uses the trace again
in training. Steps of abreast run the function's Python (`functions.py`), so these parts count. Here: what a step does and an
earlier trace does not.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import tensorflow as tf

from abreast import exact
from abreast.backend.tensorflow.operations import sets_variables

_SCRATCH = "scratch_graph"  # Keras's name of a graph in which it builds
_ANY = object()  # in place of `training`: plain Keras builds in the first step, with the value of that step
_PLAIN = (bool, int, float, str, bytes)
_READS, _ASSIGNS = "ReadVariableOp", "Assign"


class _Trace(NamedTuple):
    """A trace that plain Keras keeps: its arguments, and the identities of handles of the variables that it reads and sets."""

    arguments: list[Any]
    reads: set[int]
    sets: set[int]


# By function: the traces that a build of ours stands for.
_built: WeakKeyDictionary[Any, list[_Trace]] = WeakKeyDictionary()
_run_eagerly: WeakSet[Any] = WeakSet()  # functions that a step has run eagerly, and that were compared then


@contextmanager
def noting(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[None]:
    """Inside, a function runs as Python: in a build, note the trace that Keras would keep; in a step, warn of what it loses."""
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    running = exact.current()
    is_build = graph is not None and not exact.is_inside() and _depth(graph) > 1  # the outermost one is abreast's own
    is_step = running is not None and running.link.index == 0 and (graph is not None or function not in _run_eagerly)
    known = _kept(function, args, kwargs) if is_step else None
    if not is_build and known is None:
        yield
        return
    losses = _losses(running)
    with _watched_eagerly(running.model) if graph is None and running is not None else _watched(graph) as (reads, sets):
        yield
    if known is None:
        _built.setdefault(function, []).append(_Trace(_arguments(function, args, kwargs, training=_ANY), reads, sets))
    elif running is not None:
        if graph is None:
            _run_eagerly.add(function)
        if lost := list(_lost(known, reads, sets, running.model, _losses(running) > losses)):
            _announce(running.model, function, lost)


@contextmanager
def _watched(graph: Any) -> Iterator[tuple[set[int], set[int]]]:
    """Identities of the handles of the variables that operations made inside read, and of those that they set."""
    before = len(graph.get_operations())
    reads: set[int] = set()
    sets: set[int] = set()
    yield reads, sets
    for each in graph.get_operations()[before:]:
        if each.type == _READS or each.type.startswith(_ASSIGNS):
            (reads if each.type == _READS else sets).add(id(_outermost(each.inputs[0], graph)))


@contextmanager
def _watched_eagerly(model: Any) -> Iterator[tuple[set[int], set[int]]]:
    """The same for code that runs at once: it finds reads of weights that train, and changes of other variables."""
    reads: set[int] = set()
    sets: set[int] = set()
    others = [variable._value for variable in model.non_trainable_variables]
    before = [value.numpy() for value in others]
    with tf.GradientTape() as tape:
        yield reads, sets
    reads.update(id(each.handle) for each in tape.watched_variables())
    sets.update(id(each.handle) for each, old in zip(others, before, strict=True) if (each.numpy() != old).any())


def _depth(graph: Any) -> int:
    """The number of Keras's builds, one in another, that this graph belongs to."""
    if graph is None or not hasattr(graph, "outer_graph"):
        return 0
    return int(graph.name.startswith(_SCRATCH)) + _depth(graph.outer_graph)


def _losses(running: exact.Replica | None) -> int:
    return 0 if running is None else sum(map(len, running.added_losses.values()))


def _outermost(tensor: Any, graph: Any) -> Any:
    """The tensor outside of all graphs that a graph captures as this one."""
    while graph is not None and hasattr(graph, "captures"):
        tensor = next((outer for outer, inside in graph.captures if inside is tensor), tensor)
        graph = graph.outer_graph
    return tensor


def _kept(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Trace | None:
    """The earlier trace that plain Keras uses for these arguments."""
    arguments = _arguments(function, args, kwargs)
    traces = [*_built.get(function, []), *map(_of_concrete, function._list_all_concrete_functions())]
    return next((each for each in traces if _accepts(each.arguments, arguments)), None)


def _of_concrete(concrete: Any) -> _Trace:
    captured = {id(_outermost(outer, concrete.graph.outer_graph)) for outer, _ in concrete.graph.captures}
    arguments = tf.nest.flatten(concrete.structured_input_signature)
    return _Trace(arguments, captured, captured if sets_variables(concrete) else set())


def _arguments(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], **instead: Any) -> list[Any]:
    """The arguments of a call with their defaults, in order; specs in place of tensors. `instead`: other values of some."""
    bound = inspect.signature(function.python_function).bind(*args, **kwargs)
    bound.apply_defaults()
    bound.arguments.update({name: value for name, value in instead.items() if name in bound.arguments})
    leaves = tf.nest.flatten((bound.args, bound.kwargs))
    return [tf.TensorSpec(each.shape, each.dtype) if tf.is_tensor(each) else each for each in leaves]


def _accepts(known: list[Any], new: list[Any]) -> bool:
    return len(known) == len(new) and all(map(_accepts_one, known, new))


def _accepts_one(known: Any, new: Any) -> bool:
    if isinstance(known, tf.TensorSpec) and isinstance(new, tf.TensorSpec):
        # A replica has fewer rows than the batch.
        return bool(known.dtype == new.dtype and known.shape[1:].is_compatible_with(new.shape[1:]))
    return (
        known is new or known is _ANY or (isinstance(new, _PLAIN) and type(known) is type(new) and bool(known == new))
    )


def _lost(known: _Trace, reads: set[int], sets: set[int], model: Any, adds_losses: bool) -> Iterator[str]:
    own = {id(variable._value.handle) for variable in model.variables}  # other replicas may have had turns meanwhile
    if own & reads - known.reads:
        yield "weights that it made there do not train"
    if own & sets - known.sets:
        yield "the state that it sets stays"
    if adds_losses:
        yield "the losses that it adds do not count"


def _announce(model: Any, function: Any, lost: list[str]) -> None:
    python = inspect.unwrap(function.python_function)
    name = getattr(python, "__qualname__", str(python))
    exact.warn_once(
        model,
        f"lost in {name}",
        f"{name} is under tf.function, and plain Keras traced it to build the model: with plain Keras, {', and '.join(lost)}. "
        "With abreast, these parts are in each step. Without tf.function on it, they are in those of plain Keras, too",
    )
