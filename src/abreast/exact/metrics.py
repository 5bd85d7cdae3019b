"""Metrics of replicas: a metric whose state adds up gets its replica's rows, every other metric gets the rows of all."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import keras
from keras import ops, tree

from abreast.exact import calls
from abreast.exact.losses import LOSSES_MIXING_ROWS, is_of_keras, over_rows
from abreast.exact.members import leaf_metrics, with_inner
from abreast.exact.on_all_rows import on_all_rows
from abreast.exact.outputs import of_all_rows, other_axes
from abreast.exact.own_step import is_users
from abreast.exact.replica import (
    Replica,
    current,
    gather,
    is_duplicate_of_replica_0,
    is_number,
    number_as,
    valid_rows,
    working_for,
)
from abreast.keras_private.modules import METRICS
from abreast.replacing import put_on

_UNSEEN = -1  # the number of a metric that a step makes
_thread = threading.local()
# The state of every metric class of Keras adds up over rows, except where its function mixes rows.
_FUNCTIONS_MIXING_ROWS = {"pearson_correlation", "concordance_correlation"}


def update_metrics(running: Replica, contribution: Any, x: Any, y: Any, y_pred: Any, weight: Any) -> Any:
    """Add this step to the metrics' states. Call inside `with replica(running), metrics(model)`.

    Returns the result of the user's own `compute_metrics`, if there is one, else None.
    """
    model = running.model
    _add_mean(model._loss_tracker, contribution)
    if other_axes(running):
        x, y, y_pred, weight = of_all_rows(running, x, y, y_pred, weight)
        with on_all_rows(running, model):
            return _update_each(model, x, y, y_pred, weight)
    if running.may_stand_in:
        x, y, y_pred, weight = valid_rows((x, y, y_pred, weight), running.rows)
    return _update_each(model, x, y, y_pred, weight)


def _update_each(model: Any, x: Any, y: Any, y_pred: Any, weight: Any) -> Any:
    if is_users(model, "compute_metrics"):
        return model.compute_metrics(x, y, y_pred, weight)
    if model._compile_metrics is not None:
        model._compile_metrics.update_state(y, y_pred, weight)
    return None


def adds_up(metric: Any) -> bool:
    """Whether a metric's state over a batch is the sum of its states over parts of the batch."""
    update = getattr(metric.update_state, "plain", metric.update_state)  # of `metrics`
    if not type(metric).__module__.startswith(METRICS) or not is_of_keras(update):
        return False
    function = getattr(metric, "_fn", None)
    if function is None:
        return True
    if over_rows(getattr(metric, "_fn_kwargs", {})):
        return False
    name = getattr(function, "__name__", None)  # None for an object such as a loss, which is one number for all rows
    return is_of_keras(function) and name is not None and name not in _FUNCTIONS_MIXING_ROWS | LOSSES_MIXING_ROWS


def sees_updates(model: Any) -> bool:
    """Whether the user's code could see whether a step updates its metrics before or after the weights."""
    if is_users(model, "compute_metrics") or not all(map(adds_up, leaf_metrics(model))):
        return True
    optimizers = [] if model.optimizer is None else with_inner(model.optimizer)
    rates = [getattr(optimizer, "_learning_rate", None) for optimizer in optimizers]
    constraints = [weight.constraint for weight in model.trainable_weights]
    run_in_update = (each for each in (*optimizers, *rates, *constraints) if each is not None)
    return not all(is_of_keras(type(each)) for each in run_in_update)


@contextmanager
def metrics(model: Any) -> Iterator[list[Any]]:
    """Inside, `update_state` and `result` of a model's metrics count the rows of all replicas once. Gives `leaf_metrics`."""
    leaves = leaf_metrics(model)
    contributions = set(map(id, model._compile_loss.metrics)) if getattr(model, "_compile_loss", None) else set()
    with ExitStack() as undo:
        for number, metric in enumerate(leaves):
            plain = metric.update_state
            is_contribution = id(metric) in contributions
            wrapped: Any = _contribution_update(metric, plain) if is_contribution else _update(metric, plain, number)
            wrapped.plain = plain
            undo.callback(put_on(metric, update_state=wrapped, result=_result(metric, metric.result)))
        before, _thread.undo = getattr(_thread, "undo", None), undo
        undo.callback(setattr, _thread, "undo", before)
        yield leaves


def made(plain: Callable[..., None]) -> Callable[..., None]:
    """`Metric.__init__` for metrics that a step makes, or a run of the row check: libraries append them to `model._metrics`."""

    @functools.wraps(plain)
    def init(metric: Any, *args: Any, **kwargs: Any) -> None:
        plain(metric, *args, **kwargs)
        if (run := calls.running()) is not None:
            run.note_metric(metric)
        running, undo = current(), getattr(_thread, "undo", None)
        if running is not None and undo is not None:
            running.new_metrics.append(metric)
            undo.callback(put_on(metric, update_state=_new_update(metric), result=_new_result(metric)))

    return init


def _new_update(metric: Any) -> Callable[..., Any]:
    """`update_state` of a metric that is not yet complete; the row check has not seen what it gets."""
    plain: Any = metric.update_state

    def update_state(*args: Any, **kwargs: Any) -> Any:
        return _update(metric, plain, _UNSEEN)(*args, **kwargs)

    wrapped: Any = update_state
    wrapped.plain = plain
    return update_state


def _new_result(metric: Any) -> Callable[[], Any]:
    plain = metric.result
    return lambda: _result(metric, plain)()


def _update(metric: Any, plain: Callable[..., Any], number: int) -> Callable[..., Any]:
    together = adds_up(metric)
    of_numbers = isinstance(metric, (keras.metrics.Mean, keras.metrics.Sum))

    def update_state(*args: Any, **kwargs: Any) -> Any:
        running = current()
        if running is None:
            return None if together and is_duplicate_of_replica_0() else plain(*args, **kwargs)
        kinds, has_arrays = _kinds_of_values(running, number, (args, kwargs))
        if not together or has_arrays or _means_over_rows(metric, args):
            args, kwargs = (gather(running, data, kinds, of_user=_is_of_user(running)) for data in (args, kwargs))
            with on_all_rows(running, metric):
                if together and is_duplicate_of_replica_0():
                    return None
                return plain(*args, **kwargs)
        if running.may_stand_in:
            if isinstance(running.rows, int):
                return None  # some functions refuse an empty tensor
            args, kwargs = (_none_of_stand_in(running, data) for data in (args, kwargs))
        value = args[0] if args else kwargs.get("values")
        if of_numbers and is_number(value):
            weight = args[1] if len(args) > 1 else kwargs.get("sample_weight")
            return plain(*_scalar(running, metric.dtype, value, weight, kinds))
        return plain(*args, **kwargs)

    return update_state


def _is_of_user(running: Replica) -> bool:
    """Whether the user's code gives metrics their data."""
    return running.own_step or is_users(running.model, "compute_metrics")


def _kinds_of_values(running: Replica, number: int, data: Any) -> tuple[dict[int, str], bool]:
    """`{identity: kind}` of the values for a whole batch in `data`, as the row check found; whether one of them is an array."""
    found = running.relations
    calls = [] if found is None else found.given.get(f"{running.kind} {number}", [])
    if not calls:
        return {}, False
    kinds = calls[running.metric_calls[number] % len(calls)]
    running.metric_calls[number] += 1
    values = [(leaf, kind) for leaf, kind in zip(tree.flatten(data), kinds, strict=False) if kind != "rows"]
    return {id(leaf): kind for leaf, kind in values}, not all(is_number(leaf) for leaf, _ in values)


def _scalar(running: Replica, dtype: Any, value: Any, weight: Any, kinds: dict[int, str]) -> tuple[Any, Any]:
    """A number for the whole batch, and its weight. The weight is this replica's share of the rows; a sum counts in full."""
    share, is_sum = running.weight_as(dtype), kinds.get(id(value)) == "sum"
    number = ops.cast(value, dtype)
    number = ops.divide_no_nan(number, share) if is_sum else number
    if weight is None:
        return number, share
    counts = share if kinds.get(id(weight)) == "mean" else ops.cast(running.rows > 0, dtype)
    return number, ops.cast(weight, dtype) * counts


def _result(metric: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    """A metric's `result` for a user's own step or `compute_metrics`: from the state summed over the replicas."""
    together = adds_up(metric)

    def result() -> Any:
        running = working_for()
        if running is None or not together:
            return plain()
        totals = [(variable, running.link.all_sum(variable.value)) for variable in metric.variables]
        with keras.StatelessScope(state_mapping=totals):
            return plain()

    return result


def _means_over_rows(metric: Any, args: Any) -> bool:
    """Whether a metric's function, which averages over the last axis, would average over rows: each row is one number."""
    return isinstance(metric, keras.metrics.MeanMetricWrapper) and len(args) > 1 and len(args[1].shape) == 1


def _contribution_update(metric: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    def update_state(value: Any, sample_weight: Any = None) -> Any:
        running = current()
        if running is None:
            return None if is_duplicate_of_replica_0() else plain(value, sample_weight)
        if running.own_step:  # the value is a mean over this replica's rows
            value = value * running.weight_as(value.dtype)
        # Keras 3.15 weights a batch by its rows if they are known when it traces, else by 1.
        return _add_mean(metric, value, by_rows=sample_weight is not None)

    return update_state


def _add_mean(metric: Any, contribution: Any, by_rows: bool = True) -> None:
    """Add a loss to a `Mean` over rows, or over batches; the replicas together add what one device adds."""
    running = current()
    assert running is not None
    dtype = metric.total.dtype
    total = ops.cast(contribution, dtype)
    metric.total.assign_add(total * number_as(running.total_rows, dtype) if by_rows else total)
    count = metric.count.dtype
    metric.count.assign_add(number_as(running.rows, count) if by_rows else running.weight_as(count))


def _none_of_stand_in(running: Replica, data: Any) -> Any:
    """The data with its masks; on a replica without rows, without the stand-in row."""

    def head(leaf: Any) -> Any:
        if len(getattr(leaf, "shape", ())) == 0:
            return leaf
        return valid_rows(leaf, ops.shape(leaf)[0] * ops.cast(running.rows > 0, "int32"))

    return tree.map_structure(head, data)
