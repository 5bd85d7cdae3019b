"""Outputs of a model that are not one entry per row along the first axis: tokens as rows, time-major outputs, constants.

The row check finds the axes (`Relations.outputs`). Losses and metrics then get the outputs of all replicas, as on one device.
Imports no framework.
"""

from __future__ import annotations

from typing import Any

from abreast.exact.relations import RowAxes
from abreast.exact.replica import Replica, gather
from abreast.exact.rows import RowAxis
from abreast.exact.tensor_rows import mapped, rows_back, rows_first


def other_axes(running: Replica) -> RowAxes:
    """The row axes of the outputs; () if each output has one entry per row along its first axis."""
    return () if running.relations is None else running.relations.outputs.get(running.kind == "train", ())


def of_all_rows(running: Replica, x: Any, y: Any, y_pred: Any, weight: Any) -> tuple[Any, Any, Any, Any]:
    """The batch and the model's outputs of all replicas."""

    def joined(leaf: Any, axis: RowAxis) -> Any:
        return rows_back(running.link.gather_rows(rows_first(leaf, axis), running.counts), axis)

    x, y, weight = (gather(running, data) for data in (x, y, weight))
    axes = other_axes(running)
    return x, y, mapped(y_pred, axes, joined) if axes else gather(running, y_pred), weight
