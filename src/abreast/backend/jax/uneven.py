"""Batches whose rows do not divide among the devices: XLA shards them unevenly, unless the program sorts.

On unevenly sharded rows XLA ends the process at the gradient of a sort (`Check failed: ShapeUtil::IsScalarWithElementType`), also
if it sorts along another axis. Every device then computes all rows of such a batch. Imports no framework.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from abreast.backend.jax.staged import Rows


class UnevenRows:
    """A step compiled for sharded rows and for whole ones; which of the two runs depends on the number of rows."""

    def __init__(self, sharded: Any, whole: Any, num_devices: int) -> None:
        self._sharded, self._whole = sharded, whole
        self._num_devices = num_devices
        self._chosen: dict[Rows, Any] = {}

    def __call__(self, state: Any, data: Any, rows: Rows) -> Any:
        chosen = self._chosen.get(rows) or self._choose(state, data, rows)
        return chosen(state, data, rows)

    def lower(self, state: Any, data: Any, rows: Rows) -> Any:
        return self._choose(state, data, rows).lower(state, data, rows)

    def _choose(self, state: Any, data: Any, rows: Rows) -> Any:
        total = rows if isinstance(rows, int) else sum(stop - start for start, stop in rows)
        is_whole = total % self._num_devices != 0 and sorts(self._sharded.trace(state, data, rows).jaxpr)
        self._chosen[rows] = self._whole if is_whole else self._sharded
        return self._chosen[rows]


def sorts(jaxpr: Any) -> bool:
    """Whether a traced program, or a function in it, sorts."""
    return any(each.primitive.name == "sort" or any(map(sorts, _inner(each.params.values()))) for each in jaxpr.eqns)


def _inner(values: Any) -> Iterator[Any]:
    for value in values:
        if hasattr(value, "eqns"):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _inner(value)
