"""Metrics of replicas: those whose state adds up see their replica's rows, all others the rows of all.

Imports Keras; no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops, tree
from keras.src.trainers.trainer import Trainer

from abreast.exact.losses import LOSSES_MIXING_ROWS, is_of_keras
from abreast.exact.replica import Replica, all_rows, current, gather, repeats, valid_rows

_METRIC_MODULES = "keras.src.metrics."
# The state of every metric class of Keras adds up over rows, except where its function mixes rows.
_FUNCTIONS_MIXING_ROWS = {"pearson_correlation", "concordance_correlation"}


def update_metrics(running: Replica, contribution: Any, x: Any, y: Any, y_pred: Any, weight: Any) -> Any:
    """Add this step to the metrics' states. Call inside `with replica(running), metrics(model)`, with the valid rows only.

    Gives what the user's own `compute_metrics` does, else None.
    """
    model = running.model
    _add_mean(model._loss_tracker, contribution)
    if type(model).compute_metrics is not Trainer.compute_metrics:
        return model.compute_metrics(x, y, y_pred, weight)
    if model._compile_metrics is not None:
        model._compile_metrics.update_state(y, y_pred, weight)
    return None


def adds_up(metric: Any) -> bool:
    """Whether a metric's state over a batch is the sum of its states over parts of the batch."""
    if not type(metric).__module__.startswith(_METRIC_MODULES):
        return False
    function = getattr(metric, "_fn", None)
    if function is None:
        return True
    return is_of_keras(function) and function.__name__ not in _FUNCTIONS_MIXING_ROWS | LOSSES_MIXING_ROWS


def leaf_metrics(model: Any) -> list[Any]:
    """Every metric of a model that holds state of its own."""
    leaves: list[Any] = []
    for metric in model.metrics:
        leaves.extend(metric.metrics if hasattr(metric, "metrics") and not metric._variables else [metric])
    return list({id(metric): metric for metric in leaves}.values())


@contextmanager
def metrics(model: Any) -> Iterator[None]:
    """Lead every `update_state` of a model's metrics through this module while steps run."""
    contributions = set(map(id, model._compile_loss.metrics)) if getattr(model, "_compile_loss", None) else set()
    changed = []
    for metric in leaf_metrics(model):
        wrap = _contribution_update if id(metric) in contributions else _update
        metric.__dict__["update_state"] = wrap(metric, metric.update_state)
        metric.__dict__["result"] = _result(metric, metric.result)
        changed.append(metric)
    try:
        yield
    finally:
        for metric in changed:
            del metric.__dict__["update_state"], metric.__dict__["result"]


def _update(metric: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    together = adds_up(metric)

    def update_state(*args: Any, **kwargs: Any) -> Any:
        running = current()
        if running is None:
            return None if together and repeats() else plain(*args, **kwargs)
        if not together or _means_over_rows(metric, args):
            args, kwargs = gather(running, args), gather(running, kwargs)
            with all_rows(running):
                return None if together and repeats() else plain(*args, **kwargs)
        if isinstance(running.rows, int) and running.rows == 0:
            return None  # some functions refuse an empty tensor
        if not isinstance(running.rows, int):
            args, kwargs = (_none_of_stand_in(running, data) for data in (args, kwargs))
        if isinstance(metric, (keras.metrics.Mean, keras.metrics.Sum)) and args and _is_scalar(args[0]):
            args, kwargs = (args[0],), _weight_of_scalar(running, *args, **kwargs)
        return plain(*args, **kwargs)

    return update_state


def _weight_of_scalar(running: Replica, value: Any, sample_weight: Any = None) -> dict[str, Any]:
    """What one value for the batch counts: the user's weight, else this replica's share, as of a mean over rows."""
    if sample_weight is None:
        return {"sample_weight": ops.cast(running.weight, value.dtype)}
    return {"sample_weight": ops.cast(sample_weight, value.dtype) * ops.cast(running.rows > 0, value.dtype)}


def _result(metric: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    """What a user's own step, or `compute_metrics`, reads of a metric: its state summed over the replicas' parts."""
    together = adds_up(metric)

    def result() -> Any:
        running = current()
        if running is None or not together:
            return plain()
        totals = [(variable, running.link.all_sum(variable.value)) for variable in metric.variables]
        with keras.StatelessScope(state_mapping=totals):
            return plain()

    return result


def _means_over_rows(metric: Any, args: Any) -> bool:
    """Whether a metric's function, which takes the mean over the last axis, takes it over rows that are numbers."""
    return isinstance(metric, keras.metrics.MeanMetricWrapper) and len(args) > 1 and len(args[1].shape) == 1


def _contribution_update(metric: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    def update_state(value: Any, sample_weight: Any = None) -> Any:
        if current() is None:
            return None if repeats() else plain(value, sample_weight)
        # Keras 3.15 counts a batch by its rows where they are known when it traces, else as one.
        return _add_mean(metric, value, by_rows=sample_weight is not None)

    return update_state


def _add_mean(metric: Any, contribution: Any, by_rows: bool = True) -> None:
    """Add a loss to a `Mean` of rows, or of batches: what the replicas add is what one device would."""
    running = current()
    assert running is not None
    dtype = metric.total.dtype
    total = ops.cast(contribution, dtype)
    metric.total.assign_add(total * ops.cast(running.total_rows, dtype) if by_rows else total)
    metric.count.assign_add(ops.cast(running.rows if by_rows else running.weight, metric.count.dtype))


def _none_of_stand_in(running: Replica, data: Any) -> Any:
    """All rows of what a step or a layer saw, masks included; none on a replica that has a stand-in row only."""

    def head(leaf: Any) -> Any:
        if len(getattr(leaf, "shape", ())) == 0:
            return leaf
        return valid_rows(leaf, ops.shape(leaf)[0] * ops.cast(running.rows > 0, "int32"))

    return tree.map_structure(head, data)


def _is_scalar(value: Any) -> bool:
    return hasattr(value, "shape") and len(value.shape) == 0
