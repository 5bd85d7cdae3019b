"""The search for parts of a model that relate the rows of a batch to one another: a few rows are run whole and in two parts.

Not here: how runs are recorded (`calls.py`) and compared (`run_differences.py`), and what the differences mean
(`conclusions.py`). Imports no framework.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from abreast.arrays import arrays_of, map_arrays
from abreast.exact.calls import THE_STEP, FullRun, PartRun, PerturbedRun, as_array
from abreast.exact.conclusions import Conclusions
from abreast.exact.dry_run import dry_run
from abreast.exact.global_draws import drew, rewind_generators
from abreast.exact.gradient_search import GradientSearch, members_that_stop_gradients
from abreast.exact.left_tensors import LeftTensors, Numbers, are_close
from abreast.exact.members import leaf_metrics, members, name_of, optimizers
from abreast.exact.own_step import overrides_step
from abreast.exact.probe import Probe
from abreast.exact.relations import CallAxes, Relations
from abreast.exact.rows import RowRange, rising
from abreast.exact.run_differences import Judged, RunDifferences
from abreast.exact.snapshot import Snapshot
from abreast.exact.users_code import members_that_name, names_on_all_rows

_MOST_ROWS = (8, 64)  # of each part, at the first and at the second look
_PART_BYTES = 1 << 20
_FINE = 1e-4
_FEW_ROWS = 6
_MANY_ROWS = 128
_SIZES = {"shape", "len", "size", "numel", "get_shape"}  # names in code that may decide by the number of its rows


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


def many_rows(rows: int, row_bytes: int) -> int:
    """The number of rows for the search for members that compute otherwise from many rows: 128, or fewer above 1 MiB."""
    return min(rows, _MANY_ROWS, max(1, _PART_BYTES // max(1, row_bytes)))


_one_at_a_time = threading.Lock()  # a search changes objects that all threads share, and restores them


def relations(
    model: Any,
    forward: Callable[[Any], Any],
    take: Callable[[int], Any],
    parts: list[RowRange],
    probe: Probe,
    kind: str,
    most_rows: int,
    judged: Judged | None = None,
) -> Relations:
    """The findings of `forward(rows)`, a step of kind `kind` or a call of the model, on the rows of two `parts`.

    `take(n)` returns `n` rows of the batch, of which `most_rows` may be run at once. `judged`: what former searches have shown.
    """
    with _one_at_a_time, dry_run(model) as snapshot, probe.unchanged():
        many = take(most_rows) if most_rows > parts[0].total and members_that_name(model, _SIZES) else None
        search = _Search(model, forward, take(parts[0].total), many, parts, probe, kind, snapshot, judged or {})
        result = search.result()
    result.reads_values, result.depends_on_values = probe.reads_values(), probe.depends_on_values()
    result.foreign = probe.foreign()
    return result


def failure(model: Any, forward: Callable[[Any], Any], data: Any, probe: Probe) -> Exception | None:
    """The exception that ends `forward`, a step or a call of the model, on some rows; None if it runs on them."""
    with _one_at_a_time, dry_run(model), probe.unchanged():
        try:
            FullRun(model, _states(model), {}).run(forward, _given(data, probe))
        except Exception as error:
            return error
    return None


class _Search:
    """The runs of one search, and their findings. Every run gets copies of its rows, because a model may write into them."""

    def __init__(
        self,
        model: Any,
        forward: Callable[[Any], Any],
        data: Any,
        many: Any,
        parts: list[RowRange],
        probe: Probe,
        kind: str,
        snapshot: Snapshot,
        judged: Judged,
    ) -> None:
        self._judged = judged
        self._model, self._forward, self._parts, self._kind = model, forward, parts, kind
        self._probe, self._snapshot = probe, snapshot
        self._everything = RowRange(parts[0].total, 0, parts[0].total)
        self._data = data
        self._many = many  # more rows, if code may decide by their number
        self._states = _states(model)
        self._is_own = overrides_step(model, kind)
        values = {} if self._is_own else _instead_of_zeros(model)
        # Where kernels differ more between batch sizes, small numbers beside large ones show nothing.
        self._whole = FullRun(model, self._states, values, sees_hidden=probe.noise < _FINE)
        given = self._rows(self._everything)
        self._whole.run(forward, given)
        self._writes_rows = probe.has_own_python and not all(map(_are_equal, arrays_of(given), arrays_of(data)))
        self._left = LeftTensors(model, snapshot)

    def result(self) -> Relations:
        held, untracked = _held_elsewhere(self._model), self._whole.untracked
        untracked = {number: each for number, each in untracked.items() if number not in held}
        runs, numbers = zip(*(self._part(part, self._whole) for part in self._parts), strict=True)
        draws = drew() or self._probe.drew() or self._snapshot.drew()
        found = self._differences(self._whole, list(runs), untracked)
        kept = _kept(self._left.numbers, *numbers)
        if kept and not draws:
            found.reads_kept = self._reads_kept(found)
        self._clear(found, self._whole)
        conclusions = Conclusions(found)
        result = conclusions.relations()
        if not result.refused:
            self._add_few_rows(result, conclusions)
            self._add_many_rows(result, conclusions)
        if self._is_own and result.gathered and not result.no_means:
            Conclusions(self._own_code_around(result.gathered)).judge_own_code(result)
        if not self._is_own:
            self._add_what_calls_leave(result, conclusions, list(zip(self._parts, numbers, strict=True)))
        result.draws, result.writes_rows, result.judged = draws, self._writes_rows, {**self._judged, **found.judged}
        result.makes_metrics = self._whole.makes_metrics
        if kept:
            name = self._snapshot.name(kept)
            result.kept = name if found.reads_kept else ""
            runs_as_python = self._probe.has_own_python or self._model.run_eagerly
            result.left = name if runs_as_python else ""
        return result

    def _differences(
        self, whole: FullRun, runs: list[PartRun], untracked: dict[int, Any] | None = None
    ) -> RunDifferences:
        self._probe.rewind(generators=False)  # states that a run has written to in place: their values before it count
        return RunDifferences(
            self._model, self._states, whole, runs, self._probe, self._kind, untracked or {}, self._judged
        )

    def _clear(self, found: RunDifferences, whole: FullRun, data: Any = None) -> None:
        """Drop the differences that a further run explains. `data`: the rows of the full run, if they are not the search's."""
        if found.suspects():
            self._snapshot.rewind(generators=False)
            self._probe.rewind(generators=False)
            everything = self._everything if data is None else _all_of(data)
            # Generators continue, so random numbers differ.
            again = PerturbedRun(self._model, self._states, whole, everything.total, not self._is_own)
            again.run(self._forward, self._rows(everything, data))
            found.clear(again)

    def _add_few_rows(self, result: Relations, conclusions: Conclusions) -> None:
        """Add the members that compute otherwise from one row than from several, and up to how many rows they do."""
        for rows in range(1, min(_FEW_ROWS + 1, self._parts[0].rows)):
            unlike = self._unlike(RowRange(self._everything.total, 0, rows)) - result.gathered.keys()
            if not unlike:
                break
            conclusions.gather_of_few(result, unlike, rows)

    def _add_many_rows(self, result: Relations, conclusions: Conclusions) -> None:
        """Add the members that compute otherwise from many rows than from those of the search."""
        if self._many is None:
            return
        everything, total = _all_of(self._many), self._everything.total
        whole = FullRun(self._model, self._states, self._whole.values, self._whole.sees_hidden)
        part = PartRun(self._model, self._states, whole, RowRange(everything.total, 0, total))
        for run in (whole, part):
            self._rewind()
            run.run(self._forward, self._rows(everything if run is whole else part.part, self._many))
        found = self._differences(whole, [part])
        if found.places:
            self._clear(found, whole, self._many)
        for number in {found.doer(place) for place in found.places} - {THE_STEP, *result.gathered}:
            conclusions.gather(result, number, f"it computes otherwise from {everything.total} rows than from {total}")

    def _unlike(self, part: RowRange) -> set[int]:
        """The members that compute otherwise from these rows than from all."""
        run, has_failed = PartRun(self._model, self._states, self._whole, part), False
        self._rewind()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of code that gets so few rows from nobody else
            try:
                run.run(self._forward, self._rows(part))
            except Exception:  # on all rows it may run
                has_failed = True
        found = self._differences(self._whole, [run])
        if found.places:
            self._clear(found, self._whole)
        unlike = {found.doer(place) for place in found.places} | (set() if has_failed else _doing_otherwise(run))
        if self._kind == "predict" and unlike != {THE_STEP}:
            unlike.discard(THE_STEP)  # it returns what a member returns
        return unlike or ({THE_STEP if self._is_own else 0} if has_failed else set())

    def _own_code_around(self, gathered: dict[int, tuple[CallAxes, ...]]) -> RunDifferences:
        """The differences of a user's step around members that relate rows, and that steps run on all rows."""
        whole = FullRun(self._model, self._states, {}, self._whole.sees_hidden, gathered)
        self._rewind()
        whole.run(self._forward, self._rows(self._everything))
        runs = [self._part(part, whole)[0] for part in self._parts]
        found = self._differences(whole, runs)
        self._clear(found, whole)
        return found

    def _rows(self, part: RowRange, data: Any = None) -> Any:
        """Some rows of the search, or of `data`."""
        return _given(_cut(self._data if data is None else data, part), self._probe)

    def _rewind(self) -> None:
        self._snapshot.rewind()
        self._probe.rewind()
        rewind_generators()

    def _part(self, part: RowRange, whole: FullRun) -> tuple[PartRun, Numbers]:
        run = PartRun(self._model, self._states, whole, part)
        self._rewind()
        run.run(self._forward, self._rows(part))
        return run, self._snapshot.numbers()

    def _reads_kept(self, found: RunDifferences) -> bool:
        """Whether a call reads what the call before it has kept in Python. Nothing is restored between the two calls."""
        self._snapshot.rewind()
        for _ in range(2):
            self._probe.rewind()
            rewind_generators()
            run = PartRun(self._model, self._states, self._whole, self._everything)
            run.run(self._forward, self._rows(self._everything))
        return any(far > found.tolerance(place) for place, far in run.distances.items())

    def _add_what_calls_leave(
        self, result: Relations, conclusions: Conclusions, parts: list[tuple[RowRange, Numbers]]
    ) -> None:
        """Add members that relate rows in their gradients, and what calls leave in states and attributes for other code."""
        stopping = [] if self._kind != "train" or result.gathered else members_that_stop_gradients(self._model)
        search = GradientSearch(self._gradient_run, self._weights(), self._parts, self._probe)
        if stopping and search.relate_rows():
            if search.are_not_linear():  # each replica has only the gradient of its own rows' outputs
                result.refused = ", ".join(name_of(members(self._model)[number]) for number in stopping)
                result.reasons |= dict.fromkeys(
                    stopping, "it changes gradients by those of other rows, as clipping does"
                )
            for number in stopping:
                conclusions.gather(result, number, "its gradients relate rows")
        names = names_on_all_rows(self._model, result.gathered)
        if self._kind == "train":
            conclusions.gather_states_named(result, names)
        result.left_in_calls, result.apart = self._left.named(names, parts, result.gathered)

    def _weights(self) -> list[Any]:
        return [each for each in self._model.trainable_variables if id(each) not in self._whole.values]

    def _gradient_run(self, values: dict[int, Any], part: RowRange) -> Any:
        """The outputs for some rows, with other values of weights, by identity."""
        self._rewind()
        outputs: list[Any] = []
        run = FullRun(self._model, self._states, {**self._whole.values, **values})
        run.run(lambda data: outputs.append(self._forward(data)), self._rows(part))
        return outputs


def _doing_otherwise(run: PartRun) -> set[int]:
    """The members that add other losses than with all rows, or change other states."""
    whole = run.whole
    adders = {
        number
        for number in {*run.losses, *whole.losses}
        if len(run.losses.get(number, ())) != len(whole.losses.get(number, ()))
    }
    losses = {{**whole.adders, **run.adders}[number] for number in adders}
    owners = {**whole.owners, **run.owners}
    return losses | {owners.get(state, THE_STEP) for state in run.new_states.keys() ^ whole.new_states.keys()}


def _instead_of_zeros(model: Any) -> dict[int, Any]:
    """Values for weights that are all zeros, by identity: a layer may multiply by such a weight what relates the rows.

    Not for a user's own step, whose gradients are those of the weights themselves.
    """
    weights = [weight for layer in model._flatten_layers() for weight in layer._trainable_variables]  # frozen ones, too
    zeros = [each for each in weights if not bool(ops.any(ops.not_equal(each, 0)))]
    return {id(each): ops.convert_to_tensor(rising(each.shape), dtype=each.dtype) for each in zeros}


def _kept(whole: dict[Any, Any], *parts: dict[Any, Any]) -> Any:
    """The first attribute whose value after a part of the rows differs from its value after all rows; else None."""
    for place in dict.fromkeys(place for each in (whole, *parts) for place in each):
        if any(not are_close(part.get(place, []), whole.get(place, [])) for part in parts):
            return place
    return None


def _all_of(data: Any) -> RowRange:
    rows = len(arrays_of(data)[0])
    return RowRange(rows, 0, rows)


def _cut(data: Any, part: RowRange) -> Any:
    return map_arrays(lambda leaf: leaf[part.first : part.last], data)


def _are_equal(one: Any, other: Any) -> bool:
    return np.array_equal(as_array(one), as_array(other), equal_nan=keras.backend.is_float_dtype(one.dtype))


def _given(rows: Any, probe: Probe) -> Any:
    """The rows for a run; copies if a model could write into them."""
    return map_arrays(ops.copy, rows) if probe.has_own_python else rows


def _states(model: Any) -> list[Any]:
    """The variables of a model that a call may assign, except those of metrics, which `metrics.py` combines."""
    metrics = {id(variable) for metric in leaf_metrics(model) for variable in metric.variables}
    variables = {id(variable): variable for variable in model.variables if id(variable) not in metrics}
    return list(variables.values())


def _held_elsewhere(model: Any) -> set[int]:
    """Identities of the variables of metrics and optimizers that the model holds: other rules combine them."""
    owners = [*leaf_metrics(model), *optimizers(model)]
    return {id(variable) for owner in owners for variable in owner.variables}
