"""Batches whose rows do not divide among the devices: XLA shards them unevenly, unless the program sorts.

On unevenly sharded rows XLA ends the process at the gradient of a sort (`Check failed: ShapeUtil::IsScalarWithElementType`), also
if it sorts along another axis. Every device then computes all rows of such a batch. Imports JAX.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from abreast.backend.jax.staged import Rows

_CONFIG: Any = jax.config


class UnevenRows:
    """A step compiled for sharded rows and for whole ones; which of the two runs depends on the number of rows."""

    def __init__(self, sharded: Any, whole: Any, num_devices: int) -> None:
        self._sharded, self._whole = sharded, whole
        self._num_devices = num_devices
        self._chosen: dict[tuple[Rows, bool], Any] = {}

    def __call__(self, state: Any, data: Any, rows: Rows) -> Any:
        chosen = self._chosen.get((rows, _looks_for_nans())) or self._choose(state, data, rows)
        return chosen(state, data, rows)

    def lower(self, state: Any, data: Any, rows: Rows) -> Any:
        return self._choose(state, data, rows).lower(state, data, rows)

    def _choose(self, state: Any, data: Any, rows: Rows) -> Any:
        total = rows if isinstance(rows, int) else sum(stop - start for start, stop in rows)
        # JAX looks for NaNs operation by operation, outside of a program, where it does not shard uneven arrays.
        looks = _looks_for_nans()
        is_uneven = total % self._num_devices != 0
        is_whole = is_uneven and (looks or sorts(self._sharded.trace(state, data, rows).jaxpr))
        chosen = self._chosen[rows, looks] = self._whole if is_whole else self._sharded
        return chosen


def _looks_for_nans() -> bool:
    return bool(_CONFIG.jax_debug_nans or _CONFIG.jax_debug_infs)


def sorts(jaxpr: Any) -> bool:
    """Whether a traced program, or a function in it, sorts."""
    return any(each.primitive.name == "sort" or any(map(sorts, _inner(each.params.values()))) for each in jaxpr.eqns)


def _inner(values: Any) -> Iterator[Any]:
    for value in values:
        if hasattr(value, "eqns"):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _inner(value)
