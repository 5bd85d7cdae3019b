"""Losses of replicas that add up to the loss of the global batch, for every reduction.

On JAX there are no such replicas: one program computes the loss of all rows, as on one device.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops, tree

from abreast.exact import calls
from abreast.exact.own_step import is_users
from abreast.exact.replica import Replica, all_rows, as_float, current, gather, is_inside, shared, valid_rows
from abreast.keras_private.losses import loss as keras_loss
from abreast.keras_private.losses import losses as keras_losses
from abreast.keras_private.modules import KERAS

# Keras's own losses that relate rows of a batch to one another; every other one returns a value per row.
LOSSES_MIXING_ROWS = {"circle", "dice", "tversky"}
_plain_reduce: Any = keras_loss.reduce_weighted_values
_plain_add_loss: Any = keras.layers.Layer.add_loss
_plain_losses: Any = keras.layers.Layer.losses
_thread = threading.local()


def loss_contribution(running: Replica, x: Any, y: Any, y_pred: Any, weight: Any, training: bool) -> Any:
    """This replica's part of the loss; values and gradients of all replicas add up to those of one device.

    Call inside `with replica(running)`. The data may include a stand-in row, so that no loss gets an empty tensor.
    """
    model = running.model
    if not is_users(model, "compute_loss"):
        _widen_losses(model)
        with _set("contributes", True):
            return model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight, training=training)
    # The user's own compute_loss may relate rows to one another, so it gets the rows of all replicas.
    x, y, y_pred, weight = (gather(running, data) for data in (x, y, y_pred, weight))
    extra = [shared(running, loss) for loss in _extra_losses(running)]
    with all_rows(running), _set("losses", extra):
        loss = model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight, training=training)
    return loss / running.link.num_replicas


def _extra_losses(running: Replica) -> list[Any]:
    """This replica's share of `model.losses`."""
    losses = [*running.added_losses, *running.model._get_regularization_losses()]
    return [loss * ops.cast(running.weight, loss.dtype) for loss in losses]


@contextmanager
def _set(name: str, value: Any) -> Iterator[None]:
    before = getattr(_thread, name, None)
    setattr(_thread, name, value)
    try:
        yield
    finally:
        setattr(_thread, name, before)


def _widen_losses(model: Any) -> None:
    """Give losses that mix rows the rows of all replicas. The change is permanent; outside a step it has no effect."""
    compiled = model._compile_loss
    for index, entry in enumerate(compiled._flat_losses or () if compiled is not None else ()):
        if not (isinstance(entry.loss, functools.partial) and entry.loss.func is _widened):
            loss: Any = functools.partial(_widened, entry.loss, _mixes_rows(entry.loss))
            if hasattr(entry.loss, "reduction"):
                loss.reduction = entry.loss.reduction
            compiled._flat_losses[index] = entry._replace(loss=loss)


def _widened(loss: Any, mixes_rows: bool, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
    running = current()
    # Keras's losses work along the last axis, which is the axis of rows if there is no other.
    along_rows = any(len(leaf.shape) < 2 for leaf in tree.flatten(y_pred))
    if running is None or running.own_step or not (mixes_rows or along_rows):
        return loss(y_true, y_pred, sample_weight)
    y_true, y_pred, sample_weight = (gather(running, data) for data in (y_true, y_pred, sample_weight))
    with all_rows(running):
        return loss(y_true, y_pred, sample_weight) / running.link.num_replicas


def _mixes_rows(loss: Any) -> bool:
    """Whether a loss may relate rows to one another: true unless it is known to work row by row."""
    if type(loss) is keras_losses.LossFunctionWrapper or type(loss).__module__ == keras_losses.__name__:
        options = {**getattr(loss, "_fn_kwargs", {}), "": getattr(loss, "axis", None)}
        return not is_of_keras(loss.fn) or loss.fn.__name__ in LOSSES_MIXING_ROWS or over_rows(options)
    return True


def over_rows(options: dict[str, Any]) -> bool:
    """Whether the options of a loss or a metric name the axis of rows."""
    return any(
        0 in (axis if isinstance(axis, (list, tuple)) else [axis]) for axis in (options.get("axis"), options.get(""))
    )


def is_of_keras(function: Any) -> bool:
    """Whether a function is Keras's own: for those we know how they treat rows."""
    return str(getattr(function, "__module__", "")).startswith(KERAS)


def reduce_values(
    values: Any, sample_weight: Any = None, mask: Any = None, reduction: Any = "mean", dtype: Any = None
) -> Any:
    """A replacement of Keras's reduction: this replica's contribution to the reduced values of all rows."""
    running = current()
    # Losses that a layer's call computes, for `add_loss`, are means over this replica's rows, reduced by plain Keras.
    if running is None or not getattr(_thread, "contributes", None) or reduction in (None, "none"):
        return _plain_reduce(values, sample_weight=sample_weight, mask=mask, reduction=reduction, dtype=dtype)
    values = ops.convert_to_tensor(values, dtype=dtype)
    if (
        len(values.shape) == 0
    ):  # Keras's losses have averaged rows of one entry each: take this replica's share of the mean
        values = values * ops.cast(running.weight, values.dtype)
        if sample_weight is None and mask is None:
            return values
        values = running.link.all_sum(values) * ops.ones_like(
            mask if sample_weight is None else sample_weight, values.dtype
        )
    if not _are_alike(values, sample_weight, mask):  # Keras broadcasts the rows of one over another axis of the other
        values, sample_weight, mask = gather(running, (values, sample_weight, mask))
        with all_rows(running):
            loss = _plain_reduce(values, sample_weight=sample_weight, mask=mask, reduction=reduction, dtype=dtype)
        return loss / running.link.num_replicas
    values, sample_weight, mask = valid_rows((values, sample_weight, mask), running.rows)
    averages = reduction in ("mean", "sum_over_batch_size")
    weights = None if sample_weight is None else ops.cast(sample_weight, values.dtype)
    if mask is not None:
        float_mask = ops.cast(mask, values.dtype)
        if averages:  # Keras divides by the valid entries instead of by all
            entries = _row_size(mask) * as_float(running.total_rows)
            float_mask = ops.divide_no_nan(
                float_mask * ops.cast(entries, values.dtype), running.link.all_sum(ops.sum(float_mask))
            )
        # On PyTorch, Keras multiplies the weights in place, so metrics get the product.
        weights = keras_loss.apply_mask(weights, float_mask, dtype=values.dtype, reduction="sum")
    if weights is not None:
        values, weights = keras_loss.squeeze_or_expand_to_same_rank(values, weights)
        values = values * weights
    total = ops.sum(values)
    if reduction == "sum":
        return total
    if reduction == "mean_with_sample_weight" and weights is not None:
        divisor = running.link.all_sum(ops.sum(weights))
    else:
        divisor = ops.cast(_row_size(values) * as_float(running.total_rows), values.dtype)
    return ops.divide_no_nan(total, divisor)


def _are_alike(values: Any, *factors: Any) -> bool:
    """Whether weights and masks have the same number of axes as the values, apart from a last axis of length 1."""
    present = [values, *(factor for factor in factors if factor is not None and len(factor.shape) > 0)]
    pairs = zip(present, present[1:] + present[:1], strict=True)
    return all(len(one.shape) == len(other.shape) for one, other in (_squeezed(*pair) for pair in pairs))


def _squeezed(one: Any, other: Any) -> tuple[Any, Any]:
    squeezed: tuple[Any, Any] = keras_loss.squeeze_or_expand_to_same_rank(one, other)
    return squeezed


def _row_size(values: Any) -> Any:
    """Number of entries in one row."""
    size = 1
    for axis, length in enumerate(values.shape[1:], start=1):
        size = size * (length if isinstance(length, int) else as_float(ops.shape(values)[axis]))
    return size


def add_loss(layer: Any, loss: Any) -> None:
    """A replacement of `Layer.add_loss`: in a step, the running replica keeps the losses."""
    if (run := calls.running()) is not None:
        run.add_loss(layer, loss)
        return
    running = current() or getattr(_thread, "whose_losses", None)
    if running is None:
        _plain_add_loss(layer, loss)
        return
    losses = list(loss) if isinstance(loss, (list, tuple)) else [loss]
    if is_sum(layer):
        losses = [_counted_whole(running, each) for each in losses]
    # On TensorFlow, replicas take turns with one set of layers: losses kept on the layers would mix.
    running.added_losses.extend(losses)


def is_sum(layer: Any) -> bool:
    """Whether the row check found that the losses of a layer are sums over rows."""
    return current() is not None and "_abreast_sums" in vars(layer)


def _counted_whole(running: Replica, loss: Any) -> Any:
    """A loss divided by `running.weight`: the later multiplication by the weight restores the sum over this replica's rows."""
    return ops.divide_no_nan(loss, ops.cast(running.weight, loss.dtype))


@contextmanager
def losses_go_to(running: Replica) -> Iterator[None]:
    """Inside, losses added by layers that work on the rows of all replicas belong to this replica's step, as means over rows."""
    with _set("whose_losses", running):
        yield


def losses(layer: Any) -> Any:
    """A replacement of `Layer.losses`; for the model of a step, it returns this replica's shares."""
    running = current()
    if running is not None and layer is running.model:
        return (
            _extra_losses(running)
            if not running.own_step
            else running.added_losses + layer._get_regularization_losses()
        )
    override = getattr(_thread, "losses", None)
    return _plain_losses.fget(layer) if override is None else override


def unless_inside(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Keras's scaling of losses by the number of TensorFlow replicas, off in our steps: there a replica counts by its rows."""

    def scale(value: Any) -> Any:
        return value if is_inside() else plain(value)

    return scale
