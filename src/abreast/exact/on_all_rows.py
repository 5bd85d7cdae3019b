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
from abreast.exact.members import members
from abreast.exact.replica import Replica, all_rows, gather
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
    kinds = {} if running.relations is None else running.relations.left_in_calls
    if not kinds:
        yield
        return
    everyone = members(running.model)
    given: list[tuple[dict[str, Any], str, Any, Any]] = []
    for (number, name), kind in kinds.items():
        space = vars(everyone[number])
        own = space.get(name)
        if ops.is_tensor(own) and own is not running.left_before.get((number, name)):
            space[name] = of_all = (_in_call if in_call else _in_loss)(running, own, kind)
        else:
            of_all = own
        given.append((space, name, own, of_all))
    try:
        yield
    finally:
        for (space, name, own, of_all), kind in zip(given, kinds.values(), strict=True):
            new = space.get(name)
            if new is of_all:
                if own is not None:
                    space[name] = own
            elif in_call and kind == "rows" and ops.is_tensor(new):
                space[name] = own_rows(running, new, _ROWS)


def _in_loss(running: Replica, own: Any, kind: str) -> Any:
    return gather(running, own, {id(own): kind})


def _in_call(running: Replica, own: Any, kind: str) -> Any:
    if kind == "rows":
        return joined(running, own, _ROWS)
    share = own * ops.cast(running.rows > 0 if kind == "sum" else running.weight, own.dtype)
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
