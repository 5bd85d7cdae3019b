"""The gradients of all replicas, summed before an optimizer gets them: each replica's optimizer works as on one device.

Clipping, loss scaling, weight decay, averages and constraints then need no code of ours. Not here: how sums are made
(`reduce.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from abreast import exact
from abreast.backend.tensorflow import eager_uses
from abreast.backend.tensorflow.operations import draws_without_seed
from abreast.backend.tensorflow.processes import Reach
from abreast.backend.tensorflow.reduce import Reducer
from abreast.backend.tensorflow.turns import Turns
from abreast.backend.tensorflow.variables import Variables, accumulating, accumulators
from abreast.errors import ModelError
from abreast.keras_private.optimizers import BaseOptimizer, LossScaleOptimizer
from abreast.replacing import put_on

_ARE_SUMS = ContextVar("whether the gradients that an optimizer gets are sums already", default=False)


class SharedGradients:
    """Gives a model's optimizers the sums over all replicas while a step is traced; without a model, does nothing."""

    def __init__(self, model: Any, variables: Variables, reducer: Reducer) -> None:
        self._model = model
        self._variables = variables
        self._reducer = reducer

    @contextmanager
    def shared(self, turns: Turns) -> Iterator[None]:
        """Inside, an optimizer gets the sums of all replicas' gradients: it clips, checks and applies the sums."""
        _install()
        with ExitStack() as undo:
            for optimizer in exact.optimizers(self._model) if self._model is not None else []:
                self._share(optimizer, turns, undo)
            yield

    def _share(self, optimizer: Any, turns: Turns, undo: ExitStack) -> None:
        undo.callback(put_on(optimizer, apply=functools.partial(self._apply, turns, optimizer, optimizer.apply)))
        if getattr(optimizer.apply_gradients, "__func__", None) is not BaseOptimizer.apply_gradients:
            of_user = functools.partial(self._apply_gradients, turns, optimizer, optimizer.apply_gradients)
            undo.callback(put_on(optimizer, apply_gradients=of_user))
        # Keras would sum over TensorFlow's replicas. Here there is one, so Keras would copy, and TensorFlow would register a
        # gradient for that copy, which would keep the graph alive for ever.
        for one in exact.with_inner(optimizer):
            undo.callback(put_on(one, _all_reduce_sum_gradients=list))

    def _apply(
        self, turns: Turns, optimizer: Any, plain: Callable[..., None], grads: Any, trainable_variables: Any = None
    ) -> None:
        if _ARE_SUMS.get():
            plain(grads, trainable_variables)
            return
        if trainable_variables is None:
            sums = self._sums(turns, optimizer, list(grads), optimizer._trainable_variables)
        else:
            given = list(trainable_variables)
            grads, weights = exact.by_weight(optimizer, grads, given)
            sums = self._sums(turns, optimizer, grads, weights)
            if turns.reach.total > 1:
                sums = exact.overflowing_as_half(self._model, optimizer, sums, weights)
            sums, trainable_variables = exact.handed_on(sums, weights, given)
        with self._working(turns, optimizer):
            plain(sums, trainable_variables)

    def _apply_gradients(self, turns: Turns, optimizer: Any, plain: Callable[[Any], Any], grads_and_vars: Any) -> Any:
        """The user's own `apply_gradients`, which may clip: it gets the sums, and passes them to `apply`."""
        if accumulating(optimizer) is not None and turns.reach.total > 1:
            raise ModelError(
                f"{type(optimizer).__name__} has an apply_gradients of its own and accumulates gradients, which replicas keep "
                "apart until the weights change",
                "override apply instead, or leave out gradient_accumulation_steps",
            )
        grads, given = zip(*grads_and_vars, strict=True)
        gradients, weights = exact.by_weight(optimizer, grads, given)
        sums, weights = exact.handed_on(self._sums(turns, optimizer, gradients, weights), weights, list(given))
        with self._working(turns, optimizer):
            return plain(list(zip(sums, weights, strict=True)))

    @contextmanager
    def _working(self, turns: Turns, optimizer: Any) -> Iterator[None]:
        """Inside, an optimizer that has the sums works. Its random numbers in a graph are announced if they are not Keras's."""
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        with _python_once(optimizer), _sums_are_made():
            yield
        if turns.reach.total > 1:
            exact.announce_drawn(
                self._model, [True for each in graph.get_operations()[before:] if draws_without_seed(each)]
            )

    def _sums(self, turns: Turns, optimizer: Any, gradients: list[Any], weights: list[Any]) -> list[Any]:
        running = exact.current()
        assert running is not None
        if not optimizer.built and weights:
            turns.meet(None, lambda values: self._build_optimizer(optimizer, weights, len(values)))
        for gradient in gradients:
            eager_uses.note_unique(gradient)
        if running.own_step:
            kind = "sum" if id(optimizer) in running.scaled_by_share else None
            gradients = [_weighted(gradient, running, kind) for gradient in gradients]
        own = gradients, weights
        return turns.meet(own, lambda values: self._reduce(turns, optimizer, values))  # type: ignore[no-any-return]

    def _reduce(self, turns: Turns, optimizer: Any, own: list[tuple[list[Any], list[Any]]]) -> list[list[Any]]:
        values, (weights, *others) = [gradients for gradients, _ in own], [weights for _, weights in own]
        if turns.reach.total == 1:
            return self._reducer.sum_gradients(values)
        if any(list(map(id, each)) != list(map(id, weights)) for each in others):
            raise exact.other_weights()
        gradients = self._reducer.without_gaps(values, weights)
        if accumulating(optimizer) is None:
            return self._reducer.sum_gradients(gradients)
        if gradients is not values:
            raise ModelError(
                "the loss depends on other weights on each device, and gradients are accumulated",
                "use every weight at every step, or leave out gradient_accumulation_steps",
            )
        return self._reduce_when_due(optimizer, turns.reach, values)

    def _build_optimizer(self, optimizer: Any, trainable_variables: Any, num_replicas: int) -> list[None]:
        build_optimizer(self._model, optimizer, optimizer.build, trainable_variables)
        with tf.init_scope():
            self._variables.add_optimizer(optimizer)
        return [None] * num_replicas

    def _reduce_when_due(self, optimizer: Any, reach: Reach, values: list[list[Any]]) -> list[list[Any]]:
        """Sum only when an accumulating optimizer's step is due: until then, each replica accumulates its own gradients.

        Before the step, the accumulators and the gradients of all replicas are summed.
        """
        inner = accumulating(optimizer)
        known = [gradient is not None for gradient in values[0]]
        dense = [[tf.convert_to_tensor(gradient) for gradient in row if gradient is not None] for row in values]
        copies = [self._variables.copies(variable) for variable in accumulators(optimizer)]

        def sum_all() -> list[list[Any]]:
            sums = self._reducer.sum_gradients(dense)
            rows = [list(row) for row in zip(*copies, strict=True)]
            for row, total_row, sum_row in zip(rows, self._reducer.sum_gradients(rows), sums, strict=True):
                # A loss-scaling optimizer skips a step that overflows: each replica then keeps its own accumulated gradients.
                is_applied = inner is optimizer or optimizer.check_finite(sum_row)
                for copy, total in zip(row, total_row, strict=True):
                    with tf.device(copy.device):
                        copy.assign(total if is_applied is True else tf.where(is_applied, total, copy))
            return sums

        def keep() -> list[list[Any]]:
            if inner is optimizer:
                return dense
            # A loss-scaling optimizer skips steps that overflow, and must do so on all replicas or on none.
            own_poison = tf.add_n([tf.reduce_sum(gradient * 0.0) for row in dense for gradient in row])
            (poison,) = reach.sum([own_poison])
            return [[gradient + tf.cast(poison, gradient.dtype) for gradient in row] for row in dense]

        due = tf.equal((inner._iterations.value + 1) % inner.gradient_accumulation_steps, 0)
        summed = reach.in_order(lambda: tf.cond(due, sum_all, keep))
        return [_with_gaps(row, known) for row in summed]


@contextmanager
def _sums_are_made() -> Iterator[None]:
    """Inside, optimizers that this one calls take their gradients as they are."""
    token = _ARE_SUMS.set(True)
    try:
        yield
    finally:
        _ARE_SUMS.reset(token)


def _python_once(optimizer: Any) -> AbstractContextManager[None]:
    """Inside, Python code of an optimizer and its schedule changes Python objects once per step."""
    running = exact.current()
    assert running is not None
    return exact.python_once(running, optimizer)


@functools.cache
def _install() -> None:
    """Make an optimizer that would not get the sums raise an error in a replica's step. Runs once per process."""
    for kind in (BaseOptimizer, LossScaleOptimizer):
        kind.apply = _refused_unless_led(kind.apply)


def _refused_unless_led(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def apply(optimizer: Any, *arguments: Any, **options: Any) -> Any:
        running = exact.current()
        if running is not None and running.link.num_replicas > 1 and "_all_reduce_sum_gradients" not in vars(optimizer):
            raise ModelError(
                f"the step of {running.model.name} uses an optimizer ({optimizer.name}) that the model does not hold: each "
                "replica would apply the gradients of its own rows",
                "make it an attribute of the model",
            )
        return plain(optimizer, *arguments, **options)

    return apply


def build_optimizer(model: Any, optimizer: Any, build: Callable[[Any], None], weights: Any) -> None:
    """Build an optimizer as the step of plain Keras does: in a graph, which is traced again once the variables are there.

    What `build` assigns to them, as that of `ScheduleFreeAdamW` does, is then lost.
    """

    def unless_built() -> None:
        if not optimizer.built:
            build(list(weights))
            optimizer.built = True

    with tf.init_scope():
        if model.run_eagerly:
            unless_built()
        else:
            tf.function(unless_built, autograph=False).get_concrete_function()


def _weighted(gradient: Any, running: exact.Replica, kind: str | None) -> Any:
    """A replica's part of a gradient; zeros, also for a NaN, if the replica has no rows."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = _weighted(gradient.values, running, kind)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return tf.math.multiply_no_nan(gradient, running.share_of(kind, gradient.dtype.name))


def _with_gaps(values: list[Any], known: list[bool]) -> list[Any]:
    remaining = iter(values)
    return [next(remaining) if is_known else None for is_known in known]
