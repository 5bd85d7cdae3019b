"""Code of a step that runs on the rows of all replicas: a loss, a metric, a layer that relates rows. Every replica runs it.

It finds Python objects as one device does: tensors of rows that a call has left in an attribute of a layer (`self.features`) are
those of all replicas meanwhile. Not here: the search for such attributes (`left_tensors.py`). Imports no framework.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keras import ops

from abreast.exact.dry_run import python_once
from abreast.exact.layers import exchange
from abreast.exact.replica import Left, Replica, all_rows, gather
from abreast.exact.rows import RowAxis
from abreast.exact.tensor_rows import rows_back, rows_first

_ROWS = RowAxis(0, 1)


@contextmanager
def on_all_rows(running: Replica, holder: Any, in_call: bool = False) -> Iterator[None]:
    """Inside, code of `holder` runs on the rows of all replicas. `in_call`: see `all_rows`."""
    with _left_of_all(running, in_call), all_rows(running, in_call), python_once(running, holder):
        yield


@contextmanager
def _left_of_all(running: Replica, in_call: bool) -> Iterator[None]:
    """Inside, the attributes in which this step's calls have left tensors of rows have those of all replicas."""
    own = [each.value for each in running.left]
    of_all = [_of_all(running, each, in_call) for each in running.left]
    for each, value in zip(running.left, of_all, strict=True):
        if value is not None:
            each.space[each.name] = value
    try:
        yield
    finally:
        for each, value, before in zip(running.left, of_all, own, strict=True):
            if value is not None and each.value is value:
                each.space[each.name] = before
            elif in_call and each.kind == "rows" and ops.is_tensor(each.value) and each.value is not before:
                each.space[each.name] = own_rows(running, each.value, _ROWS)


def _of_all(running: Replica, left: Left, in_call: bool) -> Any:
    """The tensor of all replicas; None if no call of this step has left one yet."""
    if not ops.is_tensor(left.value) or left.value is left.before:
        return None
    return (_in_call if in_call else _in_loss)(running, left.value, left.kind)


def _in_loss(running: Replica, own: Any, kind: str) -> Any:
    return gather(running, own, {id(own): kind})


def _in_call(running: Replica, own: Any, kind: str) -> Any:
    if kind == "rows":
        return joined(running, own, _ROWS)
    share = own * running.share_of(kind, own.dtype)
    return exchange(running, running.link.all_sum, share)


def joined(running: Replica, leaf: Any, axis: RowAxis) -> Any:
    """The rows of all replicas."""
    first = rows_first(leaf, axis)
    return rows_back(exchange(running, lambda tensor: running.link.join_rows(tensor, running.counts), first), axis)


def own_rows(running: Replica, leaf: Any, axis: RowAxis) -> Any:
    """This replica's rows of a leaf; a replica without rows gets the first row as a stand-in."""
    index = running.link.index
    has_rows = ops.cast(running.counts[index] > 0, "int32")
    first = ops.sum(ops.cast(running.counts[:index], "int32")) * has_rows
    rows = ops.maximum(ops.cast(running.counts[index], "int32"), 1)
    return rows_back(rows_first(leaf, axis)[first : first + rows], axis)
