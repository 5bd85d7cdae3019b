"""Losses that layers add in their calls, kept by replica and by layer, and `Layer.losses`, which returns those of all rows.

On one device, `layer.losses` are losses of the whole batch. In a step, a replica's layers add losses of its own rows; whoever
reads them (a step, a layer, a loss) gets the values of all rows. Only the sum that Keras's own `compute_loss` makes gets this
replica's shares, which need no exchange. Not here: how losses are reduced (`losses.py`). Imports no framework.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import keras
from keras import ops, tree

from abreast.exact import calls
from abreast.exact.layers import exchange
from abreast.exact.members import name_of
from abreast.exact.replica import Added, Replica, current, is_in_gathered_call, shared, working_for
from abreast.exact.warn_once import warn_once

_plain_add_loss: Any = keras.layers.Layer.add_loss
_plain_clear_losses: Any = keras.layers.Layer._clear_losses
_plain_losses: Any = keras.layers.Layer.losses


class _Left(NamedTuple):
    """A loss of the last step, without gradient: its value, and this replica's share of the batch's value."""

    value: Any
    share: Any


# By layer and by replica, for code that reads losses after a step, such as a callback. Only losses that have values.
_left: WeakKeyDictionary[Any, dict[int, list[_Left]]] = WeakKeyDictionary()
_num_replicas: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def add_loss(layer: Any, loss: Any) -> None:
    """A replacement of `Layer.add_loss`: in a step, the replica that runs keeps the losses."""
    if (run := calls.running()) is not None:
        run.add_loss(layer, loss)
        return
    running = working_for()
    if running is None:
        _plain_add_loss(layer, loss)
        return
    of_all_rows = current() is None
    for each in map(_as_float, tree.flatten(loss)):
        counted = _counted_whole(running, each) if is_sum(layer) else each
        # On TensorFlow, replicas take turns with one set of layers: losses kept on the layers would mix.
        running.added_losses.setdefault(id(layer), []).append(Added(counted, of_all_rows))
        _leave(layer, running, counted)


def _as_float(loss: Any) -> Any:
    return loss if keras.backend.is_float_dtype(loss.dtype) else ops.cast(loss, keras.config.floatx())


def is_sum(layer: Any) -> bool:
    """Whether the row check found that the losses of a layer are sums over rows."""
    return current() is not None and "_abreast_sums" in vars(layer)


def _counted_whole(running: Replica, loss: Any) -> Any:
    """A loss divided by `running.weight`: the later multiplication by the weight restores the sum over this replica's rows.

    Without rows, the weight is 0. (On PyTorch, Keras 3.13's `divide_no_nan` has the gradient NaN there.)
    """
    weight = running.weight_as(loss.dtype)
    return loss / ops.where(ops.equal(weight, 0), ops.ones_like(weight), weight)


def clear_losses(layer: Any) -> None:
    """A replacement of `Layer._clear_losses`, which Keras calls where a call begins that is not inside another layer's."""
    run, running = calls.running(), working_for()
    if run is not None:
        run.added_losses.pop(id(layer), None)
    elif running is not None:
        running.added_losses.pop(id(layer), None)
        _left.get(layer, {}).pop(running.link.index, None)
    else:
        _left.pop(layer, None)
    _plain_clear_losses(layer)


def losses(layer: Any) -> Any:
    """A replacement of `Layer.losses`."""
    run, running = calls.running(), working_for()
    if run is None and running is None:
        return _after_steps(layer) if _left else _plain_losses.fget(layer)
    keeper: Any = running if run is None else run
    added = [each for member in layer._flatten_layers() for each in keeper.added_losses.get(id(member), ())]
    regularization = _regularization(layer)
    if running is None or run is not None:
        return added + regularization
    if running.contributes and current() is not None:
        return [each * running.weight_as(each.dtype) for each in [*(each.loss for each in added), *regularization]]
    return _of_all_rows(running, added) + regularization


def _regularization(layer: Any) -> list[Any]:
    """The losses of regularizers. Keras's own method fails in a stateless scope that does not hold every weight."""
    return [each.regularizer(each) for each in layer.trainable_weights if each.regularizer is not None]


def _of_all_rows(running: Replica, added: list[Added]) -> list[Any]:
    """The losses of the whole batch. Losses that are no numbers stay those of this replica's rows."""
    found = [each.loss for each in added]
    places = [place for place, each in enumerate(added) if not each.of_all_rows and len(each.loss.shape) == 0]
    if not places or running.link.num_replicas == 1:
        return found
    dtype = keras.backend.result_type(*(found[place].dtype for place in places), "float32")
    shares = ops.stack([ops.cast(found[place], dtype) for place in places]) * running.weight_as(dtype)
    if current() is None and not is_in_gathered_call():
        totals = shared(running, shares)
    else:
        totals = exchange(running, running.link.all_sum, shares)
    for index, place in enumerate(places):
        found[place] = ops.cast(totals[index], found[place].dtype)
    return found


def _leave(layer: Any, running: Replica, loss: Any) -> None:
    """Keep the value of a loss for readers after the step."""
    if not calls.is_tensor(loss):
        return
    value = ops.stop_gradient(loss)
    share = value * running.weight_as(value.dtype)
    _left.setdefault(layer, {}).setdefault(running.link.index, []).append(_Left(value, share))
    _num_replicas[layer] = running.link.num_replicas


def _after_steps(layer: Any) -> list[Any]:
    """`Layer.losses` outside steps, with the losses that the last step left."""
    found: list[Any] = []
    for member in layer._flatten_layers():
        found.extend(_of_last_step(member) if _left.get(member) else member._get_own_losses())
    return found + list(layer._get_regularization_losses())


def _of_last_step(layer: Any) -> list[Any]:
    """A layer's losses in the last step: of all rows if this process has every replica, else of its first replica, announced."""
    replicas = [losses for _, losses in sorted(_left[layer].items())]
    if len(replicas) == _num_replicas[layer] and len({len(losses) for losses in replicas}) == 1:
        return [sum(each.share for each in same) for same in zip(*replicas, strict=True)]
    warn_once(
        layer,
        "losses after a step",
        f"the losses that {name_of(layer)} adds are read after a step: they are those of one device's rows, not of all rows of "
        "the batch. In the step, `losses` are those of all rows: give them to a metric, and read the metric",
    )
    return [each.value for each in replicas[0]]
