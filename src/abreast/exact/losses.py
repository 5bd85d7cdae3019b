"""Losses of replicas that add up to the loss of the global batch, for every reduction.

On JAX there are no such replicas: one program computes the loss of all rows, as on one device. Not here: losses that layers add
(`added_losses.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from keras import ops, tree

from abreast.errors import ModelError
from abreast.exact.on_all_rows import on_all_rows
from abreast.exact.outputs import of_all_rows, other_axes
from abreast.exact.own_step import compiled_losses, is_users
from abreast.exact.replica import (
    Replica,
    all_rows,
    as_float,
    contributing,
    current,
    gather,
    is_inside,
    number_as,
    valid_rows,
)
from abreast.keras_private.losses import loss as keras_loss
from abreast.keras_private.losses import losses as keras_losses
from abreast.keras_private.modules import KERAS, module_of

# Keras's own losses that relate rows of a batch to one another; every other one returns a value per row.
# The hinge losses read labels of 0 and 1 as -1 and 1 only if the whole batch has no other label.
LOSSES_MIXING_ROWS = {"circle", "dice", "hinge", "squared_hinge", "tversky"}
_plain_reduce: Any = keras_loss.reduce_weighted_values


def loss_contribution(running: Replica, x: Any, y: Any, y_pred: Any, weight: Any, training: bool) -> Any:
    """This replica's part of the loss; values and gradients of all replicas add up to those of one device.

    Call inside `with replica(running)`. The data may include a stand-in row, so that no loss gets an empty tensor.
    """
    model = running.model
    if not (is_users(model, "compute_loss") or other_axes(running) or _rows_as_targets(y, y_pred)):
        _widen_losses(model)
        with contributing(running):
            return model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight, training=training)
    # The user's own compute_loss may relate rows to one another, and Keras's does not know other axes of rows: they get all rows.
    x, y, y_pred, weight = of_all_rows(running, x, y, y_pred, weight)
    with on_all_rows(running, model):
        loss = model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weight, training=training)
    return loss / running.link.num_replicas


def _rows_as_targets(y: Any, y_pred: Any) -> bool:
    """Whether one array of targets has several outputs: if it has as many rows, Keras takes each row as an output's targets."""
    return not tree.is_nested(y) and tree.is_nested(y_pred) and len(tree.flatten(y_pred)) > 1


def _widen_losses(model: Any) -> None:
    """Give losses that mix rows the rows of all replicas. The change is permanent; outside a step it has no effect."""
    for index, plain in enumerate(compiled_losses(model)):
        if not (isinstance(plain, functools.partial) and plain.func is _widened):
            loss: Any = functools.partial(_widened, plain, _mixes_rows(plain))
            if hasattr(plain, "reduction"):
                loss.reduction = plain.reduction
            entries = model._compile_loss._flat_losses
            entry = entries[index]
            # Callbacks that set weights of losses may have put a plain tuple there.
            is_named = hasattr(entry, "_replace")
            entries[index] = entry._replace(loss=loss) if is_named else (entry[0], loss, *entry[2:])


def _widened(loss: Any, mixes_rows: bool, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
    running = current()
    # Keras's losses work along the last axis, which is the axis of rows if there is no other.
    along_rows = any(len(leaf.shape) < 2 for leaf in tree.flatten(y_pred))
    if running is None or running.own_step or not (mixes_rows or along_rows):
        return loss(y_true, y_pred, sample_weight)
    y_true, y_pred, sample_weight = (gather(running, data) for data in (y_true, y_pred, sample_weight))
    with on_all_rows(running, loss):
        value = loss(y_true, y_pred, sample_weight)
    if len(getattr(value, "shape", ())):
        raise without_reduction(running.model)
    return value / running.link.num_replicas


def leaves_rows(model: Any) -> bool:
    """Whether a compiled loss gives one number per row; one of the user's own may reduce them itself."""
    losses = [getattr(loss, "args", (loss,))[0] for loss in compiled_losses(model)]  # of `_widened`
    return any(getattr(each, "reduction", "sum") in (None, "none") and not _mixes_rows(each) for each in losses)


def without_reduction(model: Any) -> ModelError:
    return ModelError(
        f"a loss of {model.name} has no reduction: replicas would not know how to weight their rows",
        'give it one, such as reduction="sum", which has the same gradients',
    )


def _mixes_rows(loss: Any) -> bool:
    """Whether a loss may relate rows to one another: true unless it is known to work row by row."""
    is_known = type(loss) is keras_losses.LossFunctionWrapper or type(loss).__module__ == keras_losses.__name__
    if is_known and all(map(is_of_keras, (loss.call, type(loss).__call__))):  # a script may replace them
        options = {**getattr(loss, "_fn_kwargs", {}), "": getattr(loss, "axis", None)}
        return not is_of_keras(loss.fn) or loss.fn.__name__ in LOSSES_MIXING_ROWS or over_rows(options)
    return True


def over_rows(options: dict[str, Any]) -> bool:
    """Whether the options of a loss or a metric may name the axis of rows: by 0, or by a number from the end except -1."""
    named = [axis for axis in (options.get("axis"), options.get("")) if axis is not None]
    return any(
        each == 0 or each < -1 for axis in named for each in (axis if isinstance(axis, (list, tuple)) else [axis])
    )


def is_of_keras(function: Any) -> bool:
    """Whether a function or class is Keras's own: for those we know how they treat rows."""
    return module_of(function).startswith(KERAS)


def reduce_values(
    values: Any, sample_weight: Any = None, mask: Any = None, reduction: Any = "mean", dtype: Any = None
) -> Any:
    """A replacement of Keras's reduction: this replica's contribution to the reduced values of all rows."""
    running = current()
    # Losses that a layer's call computes, for `add_loss`, are means over this replica's rows, reduced by plain Keras.
    if running is None or not running.contributes or reduction in (None, "none"):
        return _plain_reduce(values, sample_weight=sample_weight, mask=mask, reduction=reduction, dtype=dtype)
    values = ops.convert_to_tensor(values, dtype=dtype)
    if (
        len(values.shape) == 0
    ):  # Keras's losses have averaged rows of one entry each: take this replica's share of the mean
        values = values * running.weight_as(values.dtype)
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
    if running.may_stand_in:
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
        divisor = number_as(_row_size(values) * as_float(running.total_rows), values.dtype)
        if isinstance(divisor, (int, float)) and divisor != 0:  # a row may have no entries
            return total / divisor
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


def unless_inside(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Keras's scaling of losses by the number of TensorFlow replicas, off in our steps: there a replica counts by its rows."""

    def scale(value: Any) -> Any:
        return value if is_inside() else plain(value)

    return scale
