"""The search for parts of a model that relate the rows of a batch to one another: a few rows are run whole and in two parts.

Not here: how runs are recorded (`calls.py`) and compared (`run_differences.py`). Imports no framework.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from abreast.arrays import map_arrays
from abreast.exact.calls import FullRun, PartRun, PerturbedRun
from abreast.exact.dry_run import dry_run
from abreast.exact.global_draws import drew, rewind_generators
from abreast.exact.members import leaf_metrics, name_of_owner, optimizers
from abreast.exact.own_step import overrides_step
from abreast.exact.probe import Probe
from abreast.exact.relations import Relations
from abreast.exact.rows import RowRange
from abreast.exact.run_differences import RunDifferences

_MOST_ROWS = (8, 64)  # of each part, at the first and at the second look
_PART_BYTES = 1 << 20


def parts_to_look_at(rows: int, shard_rows: int, row_bytes: int) -> list[list[RowRange]]:
    """The two parts, for one look after the other; none if the batch has too few rows.

    A part has a device's rows, limited to 1 MiB, half the batch, and 8 rows, or 64 where these give only 0.
    """
    some = [min(shard_rows, max(2, min(most, _PART_BYTES // max(1, row_bytes))), rows // 2) for most in _MOST_ROWS]
    return [parts_of(each) for each in sorted({each for each in some if each})]


def parts_of(part_rows: int) -> list[RowRange]:
    """The two parts of the rows that a look runs. They differ in length where that leaves each at least two rows.

    A mean over the flagged rows looks like a mean over rows if parts of the same length have as many flags.
    """
    total = 2 * part_rows - (part_rows > 2)
    return [RowRange(total, 0, total - part_rows), RowRange(total, total - part_rows, total)]


_one_at_a_time = threading.Lock()  # a search changes objects that all threads share, and restores them


def relations(
    model: Any, forward: Callable[[Any], Any], data: Any, parts: list[RowRange], probe: Probe, kind: str
) -> Relations:
    """The findings of `forward(data)`, a step of kind `kind` or a call of the model, on the rows of two `parts`."""
    with _one_at_a_time:
        return _relations(model, forward, data, parts, probe, kind)


def _relations(
    model: Any, forward: Callable[[Any], Any], data: Any, parts: list[RowRange], probe: Probe, kind: str
) -> Relations:
    states, total = _states(model), parts[0].total
    with dry_run(model) as snapshot, probe.unchanged():

        def rewind() -> None:
            snapshot.rewind()
            probe.rewind()
            rewind_generators()

        whole = FullRun(model, states, {} if overrides_step(model, kind) else _instead_of_zeros(model))
        whole.run(forward, data)
        held = _held_elsewhere(model)
        untracked = {number: each for number, each in whole.untracked.items() if number not in held}
        numbers = [snapshot.numbers()]
        shared = snapshot.changed() if probe.shares_python else []
        runs = []
        for part in parts:
            run = PartRun(model, states, whole, part)
            rewind()
            run.run(forward, _cut(data, part))
            numbers.append(snapshot.numbers())
            runs.append(run)
        draws = drew() or probe.drew() or snapshot.drew()
        found = RunDifferences(model, states, whole, runs, probe, kind, untracked)
        kept = _kept(*numbers)
        if kept and not draws:  # to see whether the next call reads it, run twice without restoring it
            snapshot.rewind()
            for _ in range(2):
                probe.rewind()
                rewind_generators()
                run = PartRun(model, states, whole, RowRange(total, 0, total))
                run.run(forward, data)
            found.reads_kept = any(far > found.tolerance(place) for place, far in run.distances.items())
        if found.suspects():
            snapshot.rewind(generators=False)
            probe.rewind(generators=False)
            again = PerturbedRun(model, states, whole, total)  # generators continue, so random numbers differ
            again.run(forward, data)
            found.clear(again)
    result = found.relations()
    result.draws = draws
    result.reads_values, result.depends_on_values = probe.reads_values(), probe.depends_on_values()
    result.foreign = probe.foreign()
    result.shared = shared
    if kept:
        name = f"{name_of_owner(snapshot.owner(kept[0]))}.{kept[1]}"
        result.kept = name if found.reads_kept else ""
        result.left = name if probe.has_own_python else ""
    return result


def _instead_of_zeros(model: Any) -> dict[int, Any]:
    """Values for weights that are all zeros, by identity: a layer may multiply by such a weight what relates the rows.

    Not for a user's own step, whose gradients are those of the weights themselves.
    """
    weights = [weight for layer in model._flatten_layers() for weight in layer._trainable_variables]  # frozen ones, too
    zeros = [each for each in weights if not bool(ops.any(ops.not_equal(each, 0)))]
    return {id(each): ops.cast(ops.reshape(_rising(math.prod(each.shape)), each.shape), each.dtype) for each in zeros}


def _rising(size: int) -> Any:
    """Numbers from 1/4 to 3/4, again and again."""
    return ops.cast(ops.arange(size) % 7, "float32") / 12 + 0.25


def _kept(whole: dict[Any, Any], *parts: dict[Any, Any]) -> Any:
    """The first attribute whose value after a part of the rows differs from its value after all rows; else None."""
    for place, value in whole.items():
        if any(place in part and not _are_close(part[place], value) for part in parts):
            return place
    return None


def _are_close(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(
        np.shape(one) == np.shape(other) and np.allclose(one, other, rtol=1e-4, atol=0, equal_nan=True)
        for one, other in zip(some, others, strict=True)
    )


def _cut(data: Any, part: RowRange) -> Any:
    return map_arrays(lambda leaf: leaf[part.first : part.last], data)


def _states(model: Any) -> list[Any]:
    """The variables of a model that a call may assign, except those of metrics, which `metrics.py` combines."""
    metrics = {id(variable) for metric in leaf_metrics(model) for variable in metric.variables}
    variables = {id(variable): variable for variable in model.variables if id(variable) not in metrics}
    return list(variables.values())


def _held_elsewhere(model: Any) -> set[int]:
    """Identities of the variables of metrics and optimizers that the model holds: other rules combine them."""
    owners = [*leaf_metrics(model), *optimizers(model)]
    return {id(variable) for owner in owners for variable in owner.variables}
