"""Tensors that a call leaves in attributes of layers, for code that runs on the rows of all replicas.

The row check finds them. Steps give that code the tensors of all replicas (`on_all_rows.py`). Imports no framework.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from keras import ops

from abreast.exact.members import members
from abreast.exact.rows import RowRange, follows_rows
from abreast.exact.snapshot import Snapshot

Place = tuple[int, str]  # see `Snapshot.numbers`
Numbers = dict[Place, list[Any]]  # see `Snapshot.numbers`
_NOISE = 1e-4


class LeftTensors:
    """The attributes whose values came from a call, as a run of all rows left them."""

    def __init__(self, model: Any, snapshot: Snapshot) -> None:
        """Note the values that a run has just left."""
        self._model, self._snapshot = model, snapshot
        self.numbers: Numbers = snapshot.numbers()
        changed = snapshot.changed_in_place()
        self._alone = {
            place for place in self.numbers if ops.is_tensor(value := self._value(place)) and id(value) not in changed
        }

    def _value(self, place: Place) -> Any:
        owner = self._snapshot.owner(place)
        return None if owner is None else vars(owner).get(place[1])

    def of_rows(self, parts: list[tuple[RowRange, Numbers]]) -> Iterator[tuple[Place, str]]:
        """The attributes that follow the rows, and how: "rows" (one entry per row), "mean", "sum", or "neither"."""
        for place, whole in self.numbers.items():
            values = [found.get(place) for _, found in parts]
            if any(value is not None and not are_close(value, whole) for value in values):
                known = place in self._alone and all(value is not None and len(value) == 1 for value in values)
                ranges = [part for part, _ in parts]
                yield place, _kind(whole[0], [value[0] for value in values if value], ranges) if known else "neither"

    def named(
        self, names: set[str], parts: list[tuple[RowRange, Numbers]], gathered: Collection[int]
    ) -> tuple[dict[tuple[int, str], str], str]:
        """`{(member, attribute): kind}` of the attributes with one of these names, and the name of one that steps cannot have
        from all replicas ("" if there is none)."""
        numbers = {id(member): number for number, member in enumerate(members(self._model))}
        found: dict[tuple[int, str], str] = {}
        apart = ""
        for place, kind in self.of_rows(parts):
            number = numbers.get(id(self._snapshot.owner(place)))
            if place[1] not in names:
                continue
            if number is None or kind == "neither" or (kind == "sum" and number in gathered):
                apart = apart or self._snapshot.name(place)
            else:
                found[number, place[1]] = kind
        return found, apart


def are_close(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(
        np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=1e-4, atol=0, equal_nan=True)
        for one, other in zip(some, others, strict=True)
    )


def _kind(whole: Any, values: list[Any], parts: list[RowRange]) -> str:
    shapes = [(part.rows, *np.shape(whole)[1:]) for part in parts]
    if np.shape(whole)[:1] == (parts[0].total,) and [np.shape(value) for value in values] == shapes:
        largest = float(np.abs(whole).max(initial=0))
        rows = (whole[part.first : part.last] for part in parts)
        pairs = zip(rows, values, strict=True)
        are_rows = all(np.allclose(*pair, rtol=0, atol=_NOISE * largest, equal_nan=True) for pair in pairs)
        return "rows" if are_rows else "neither"
    if any(np.shape(value) for value in (whole, *values)):
        return "neither"
    kind = follows_rows(whole, values, [part.rows for part in parts], _NOISE)
    return kind if kind in ("mean", "sum") else "neither"
