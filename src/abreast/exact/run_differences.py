"""The differences between a run of a batch and runs of its parts, and the member of the model that causes each difference.

Compared are the outputs of layers and operations, values between them, added losses and the layers' own states. A difference is
attributed to the innermost member that causes it. From then on that member works on the rows of all replicas (`gathered.py`).
Not here: how runs are recorded (`calls.py`). Imports no framework.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import backend

from abreast.exact.calls import THE_STEP, FullRun, PartRun, PerturbedRun, TensorPlace, as_array, resolution
from abreast.exact.members import leaf_metrics, members, name_of
from abreast.exact.own_step import is_users, overrides_step
from abreast.exact.probe import Probe
from abreast.exact.relations import CallAxes, Relations, RowAxes
from abreast.exact.rows import RowAxis, RowRange, are_rows_of, distance, follows_rows, size

_TIMES_ROUNDING = 16
_ROUNDING_OF_SUMS = 2.0**-20  # of the largest gradient
# The kinds in steps: the rows show none for the first two.
_COUNTS_AS = {"open": "mean", "one part's": "sum", "related": "rows"}
_WORDS = {
    "sum": "a sum over rows",
    "neither": "neither a mean nor a sum over rows",
    "related": "computed from other rows, too",
    "open": "0 in all rows of the first batch that were looked at",
    "one part's": "0 in one half of the rows of the first batch that were looked at",
}


_UNLIKE = ("neither", "related")


class RunDifferences:
    """The differences between the runs; `clear` drops those that a further run explains by rounding or random numbers."""

    def __init__(
        self,
        model: Any,
        states: list[Any],
        whole: FullRun,
        runs: list[PartRun],
        probe: Probe,
        kind: str,
        untracked: dict[int, Any],
    ) -> None:
        self.members = members(model)
        self.whole, self.runs, self.probe, self._kind_of_step = whole, runs, probe, kind
        self._is_own = overrides_step(model, kind)
        self._untracked = untracked  # by identity: assigned variables that neither the model nor its optimizers hold
        changed = [state for state in [*states, *untracked.values()] if id(state) in whole.new_states]
        self._before = {id(state): as_array(state.value) for state in changed}
        self._fine = ("same", "mean") if kind == "train" else ("same",)
        self._again: PerturbedRun | None = None
        self.reads_kept = False
        self._returns_logs = kind != "predict" and (self._is_own or is_users(model, "compute_metrics"))  # else outputs
        self._logs: dict[str, str] = {}
        halves = {getattr(member, "compute_dtype", None) for member in self.members} & {"float16", "bfloat16"}
        self._coarse = max(map(_resolution_of, halves), default=0.0)
        self._noise = max(probe.noise, 5e-2 if halves else 0.0)
        self._find()

    def suspects(self) -> bool:
        unlike = any(kind in kinds for each in self._given.values() for kinds in each for kind in _UNLIKE)
        unlike = unlike or self._gradients not in ("mean", "open")
        unlike = unlike or any(kind != "mean" for kind in self._logs.values())
        return bool(self._places or self._states or self._losses or unlike)

    def clear(self, again: PerturbedRun) -> None:
        self._again = again
        self._find()

    def relations(self) -> Relations:
        result = Relations(settled={state for state in self._before if self._is_settled(state)})
        result.assigned = self._assigned(result.settled)
        counted = {
            number: [[_COUNTS_AS.get(kind, kind) for kind in call] for call in calls]
            for number, calls in self._given.items()
            if any(_COUNTS_AS.get(kind, kind) != "rows" for call in calls for kind in call)
        }
        sees_all = self._settle_outputs(result)
        if logs := {} if sees_all else self._kinds_of_logs():
            result.logs[self._kind_of_step] = logs
        result.given = {f"{self._kind_of_step} {number}": kinds for number, kinds in counted.items()}
        for number, (metric, kind) in self._metrics_given(*_UNLIKE).items():
            if number != THE_STEP:
                self.gather(result, number, f"it gives {metric.name} a value that is {_WORDS[kind]}")
        if not sees_all and not (self._is_own and self._places):
            self.judge_own_code(result)
        for place, far in self._places.items():
            if place.side == "mask":
                result.no_means = (
                    f"in which {self._name(place.number)} computes a mask that relates rows to one another"
                )
                continue
            how = f"by {far:.1g} of their size" if np.isfinite(far) else "in shape, or in what is finite"
            self.gather(result, self._doer(place), f"its results for the same rows differ {how}")
        for number, kind in self._losses.items():
            if kind == "sum":
                result.sums.add(number)
            elif kind == "open" and self.members[self.whole.adders[number]] is self.members[0]:
                result.open = result.open or f"which adds a loss that is {_WORDS[kind]}"
            else:
                self.gather(result, self.whole.adders[number], f"a loss that it adds is {_WORDS[kind]}")
        for state in result.settled & self.whole.read_states:
            self._gather_if_mean(result, state, self.whole.owners[state])
        for state in self._states:
            self._gather_state(result, state, self.whole.owners.get(state, THE_STEP))
        return result

    def judge_own_code(self, result: Relations) -> None:
        """Add what the user's own step computes and what is no mean over rows."""
        result.no_means = (
            self._changed_weights()
            or self._gradient_that_is("neither", "sum", "one part's")
            or self._number_that_is(*_UNLIKE)
        )
        result.open = self._gradient_that_is("open") or self._number_that_is("open")
        result.of_one_part = self._number_that_is("one part's")

    def gather_states_named(self, result: Relations, names: set[str]) -> None:
        """Gather the members with a state that is a mean over rows and whose attribute has one of these names."""
        for state in result.settled:
            owner = self.whole.owners.get(state, THE_STEP)
            space = {} if owner == THE_STEP else vars(self.members[owner])
            if any(id(value) == state and name in names for name, value in space.items()):
                self._gather_if_mean(result, state, owner)

    def _gather_if_mean(self, result: Relations, state: int, owner: int) -> None:
        if self._state_kind(state) == "mean":
            self.gather(result, owner, "a state that it changes by its rows is read in the same step")

    def _kinds_of_logs(self) -> dict[str, str]:
        """How steps combine the values that they return: those of sums, and of all arrays without an axis of rows."""
        kinds = {name: "sum" if _COUNTS_AS.get(kind, kind) == "sum" else "mean" for name, kind in self._logs.items()}
        return {
            name: kind
            for name, kind in kinds.items()
            if kind == "sum"
            or (self.whole.logs[name].ndim and self._has_no_rows([run.logs.get(name) for run in self._all]))
        }

    def _metrics_given(self, *kinds: str) -> dict[int, tuple[Any, str]]:
        """By the member whose call gave it: a metric that got a value that follows the rows in one of these ways, and the way."""
        metrics = leaf_metrics(self.members[0])
        return {
            giver: (metrics[number], kind)
            for number, calls in self._given.items()
            for giver, found in zip(self.whole.givers[number], calls, strict=True)
            for kind in kinds
            if kind in found
        }

    def _settle_outputs(self, result: Relations) -> bool:
        """Let losses and metrics see all rows, if outputs have other axes or the user's `compute_metrics` relates rows.

        Returns whether the user's `compute_metrics` sees all rows.
        """
        number = THE_STEP if self._kind_of_step == "predict" else 0
        axes = self._axes_of(number, 0, "out")
        is_unlike = "neither" in self._logs.values() or THE_STEP in self._metrics_given(*_UNLIKE)
        relates = is_unlike and not self._is_own
        if axes and (relates or any(axis != RowAxis(0, 1) for axis in axes)):
            result.outputs[self._kind_of_step == "train"] = axes
            return not self._is_own
        return False

    def _changed_weights(self) -> str:
        """The member whose weights a user's step changes by its rows before it calls the member, in words; else ""."""
        if not self._steered:
            return ""
        number, _ = min(self._steered)
        return f"which changes weights of {self._name(number)} by its rows before it calls it again"

    def _gradient_that_is(self, *kinds: str) -> str:
        """The gradient of a user's step, in words, if it follows the rows in one of these ways; else ""."""
        return f"whose gradient is {_WORDS[self._gradients]}" if self._gradients in kinds else ""

    def _number_that_is(self, *kinds: str) -> str:
        """The first value of a user's step, in words, that follows the rows in one of these ways; "" if there is none."""
        for name, kind in self._logs.items():
            if kind in kinds:
                return f"which returns a {name!r} that is {_WORDS[kind]}"
        for giver, (metric, kind) in self._metrics_given(*kinds).items():
            if kind not in _UNLIKE or giver == THE_STEP:  # else the member is gathered
                return f"which gives {metric.name} a value that is {_WORDS[kind]}"
        return ""

    def _fine_for(self, state: int) -> tuple[str, ...]:
        """The kinds of a state that steps combine by themselves: no rule averages a variable that Keras does not track."""
        return ("same",) if state in self._untracked else self._fine

    def _gather_state(self, result: Relations, state: int, owner: int) -> None:
        variable = self._untracked.get(state)
        if variable is None:
            self.gather(result, owner, "a state that it changes is not that of one device")
        elif owner != THE_STEP:
            self.gather(
                result, owner, f"it changes {variable.name!r}, a variable that Keras does not track, by its rows"
            )
        elif self._state_kind(state) == "sum" and self.probe.is_one_process:
            result.added.add(state)  # every replica adds the part of its rows to the one variable
        else:
            result.no_means = f"which changes {variable.name!r}, a variable that Keras does not track, by its rows"

    def _find(self) -> None:
        self._steered = self._calls_with_other_weights()
        self._places = self._related_places()
        kinds = {number: self._loss_kind(number) for number in self.whole.losses}
        self._losses = {number: kind for number, kind in kinds.items() if kind != "mean"}
        self._states = [state for state in self._before if self._state_kind(state) not in self._fine_for(state)]
        self._gradients = self._gradient_kind()
        self._given = {number: self._given_kinds(number) for number in self.whole.given}
        self._logs = {name: self._log_kind(name) for name in sorted(self.whole.logs) if self._returns_logs}

    def _calls_with_other_weights(self) -> set[tuple[int, int]]:
        """The calls, by member and turn, before which a user's step had given the member weights that depend on its rows."""
        known = self.whole.weights
        return {
            call
            for run in self.runs
            for call, sums in run.weights.items()
            if call in known and not np.allclose(sums, known[call], rtol=1e-6, atol=0, equal_nan=True)
        }

    def _related_places(self) -> dict[TensorPlace, float]:
        worst: dict[TensorPlace, float] = {}
        for run in self.runs:
            for place, far in run.distances.items():
                if far > self.tolerance(place) and self._counts(place):
                    worst[place] = max(far, worst.get(place, 0.0))
        return worst

    def _counts(self, place: TensorPlace) -> bool:
        if (place.number, place.turn) in self._steered:
            return False
        if place.number == THE_STEP and self._kind_of_step != "predict":
            return False
        doer = self._doer(place)
        return doer == THE_STEP or not self.probe.knows(self.members[doer])

    def _doer(self, place: TensorPlace) -> int:
        """The member that computed a tensor: an input of a call comes from the caller's code, and so may other numbers."""
        call = place.number, place.turn
        has_other_numbers = any(run.numbers.get(call) != self.whole.numbers.get(call) for run in self.runs)
        return self.whole.callers[call] if place.side == "in" or has_other_numbers else place.number

    def tolerance(self, place: TensorPlace) -> float:
        computed = None if place.number == THE_STEP else getattr(self.members[place.number], "compute_dtype", None)
        coarse = max(map(_resolution_of, (computed, backend.standardize_dtype(self.whole.tensors[place].dtype))))
        rounding = 0.0 if self._again is None else self._again.distances.get(place, 0.0)
        return max(self.probe.noise, 8 * coarse, _TIMES_ROUNDING * rounding)

    def _kind(self, whole: Any, parts: list[Any], again: Any, least: float = 0.0) -> str:
        """The way a value follows its rows; `again` is the value in the further run, None before that run.

        `least`: the part of the value that may be rounding in any case.
        """
        return follows_rows(
            whole, parts, [part.rows for part in self._ranges], max(self._noise_of(whole, again), least)
        )

    def _noise_of(self, whole: Any, again: Any) -> float:
        """The part of a value that may be rounding; `again` is the value in the further run, None before that run."""
        rounding = 0.0 if again is None else distance(_wide(whole), _wide(again))
        return max(self._noise, _TIMES_ROUNDING * rounding)

    @property
    def _ranges(self) -> list[RowRange]:
        return [run.part for run in self.runs]

    def _loss_kind(self, number: int) -> str:
        whole, parts = self.whole.losses[number], [run.losses.get(number, []) for run in self.runs]
        return self._kind_of_all(whole, parts, None if self._again is None else self._again.losses.get(number, []))

    def _gradient_kind(self) -> str:
        whole, *parts = ([_flat(gradients) for gradients in run.gradients] for run in (self.whole, *self.runs))
        again = None if self._again is None else [_flat(gradients) for gradients in self._again.gradients]
        kind = self._kind_of_all(whole, parts, again)
        return "neither" if kind == "mean" and self._has_small_gradients_of_another_kind() else kind

    def _has_small_gradients_of_another_kind(self) -> bool:
        """Whether the gradient of a weight is no mean over rows, which larger ones of other weights hide."""
        again = [] if self._again is None else [self._again]
        for calls in zip(*(run.gradients for run in (self.whole, *self.runs, *again)), strict=True):
            largest = max(size(_flat(gradients)) for gradients in calls)
            for gradients in zip(*calls, strict=True):
                if any(each is None for each in gradients):
                    continue
                whole, *others = map(_wide, gradients)
                own = max(map(size, (whole, *others)))
                parts, more = others[: len(self.runs)], others[-1] if again else None
                least = _ROUNDING_OF_SUMS * largest / own if own else 1.0
                if self._kind(whole, parts, more, least) in ("sum", "neither"):
                    return True
        return False

    def _given_kinds(self, number: int) -> list[list[str]]:
        """For each call of a metric, the ways in which the values that it gets follow the rows."""
        runs = [run.given.get(number, []) for run in self._all]
        return [
            [self._kind_of_value([_at(_at(calls, turn) or [], leaf) for calls in runs]) for leaf in range(len(values))]
            for turn, values in enumerate(runs[0])
        ]

    @property
    def _all(self) -> list[FullRun]:
        return [self.whole, *self.runs, *([] if self._again is None else [self._again])]

    @staticmethod
    def _has_no_rows(values: list[Any]) -> bool:
        """Whether the values of all runs have one shape, though their batches have other numbers of rows."""
        return all(value is not None and value.shape == values[0].shape for value in values)

    def _kind_of_value(self, values: list[Any]) -> str:
        """How a value, in each run, follows the rows.

        "rows" for an array with an axis of rows and for what is no value; "related" for an array that has other values for the
        same rows.
        """
        whole, *others = values
        if whole is None:
            return "rows"
        parts, again = others[: len(self.runs)], others[-1] if self._again is not None else None
        if self._has_no_rows(values):
            return self._kind(whole, parts, again)
        if not whole.ndim:
            return "neither"
        is_there = all(part is not None for part in parts)
        is_alike = again is not None and again.shape == whole.shape
        noise = self._noise_of(whole, again if is_alike else None)
        return "rows" if is_there and are_rows_of(whole, parts, self._ranges, noise) else "related"

    def _assigned(self, settled: set[int]) -> set[int]:
        """Indices of the weights that a user's step sets itself, to means over rows; no other rule combines them."""
        model = self.members[0]
        known = {id(each) for layer in model._flatten_layers() for each in layer._non_trainable_variables}
        return {
            place
            for place, variable in enumerate(model.variables)
            if id(variable) in settled - known and backend.is_float_dtype(variable.dtype)
        }

    def _log_kind(self, name: str) -> str:
        kind = self._kind_of_value([run.logs.get(name) for run in self._all])
        if kind in ("neither", "open") and self.whole.equals_result(self.whole.logs[name]):
            return "mean"  # the replicas' results are equal; a number that a metric gets is judged there
        return "neither" if kind in ("rows", "related") else kind

    def _kind_of_all(self, whole: list[Any], parts: list[list[Any]], again: list[Any] | None) -> str:
        """The common kind of all values of a list; "neither" if they differ in kind, "mean" if there are none."""
        others = [*parts, *([] if again is None else [again])]
        if any(len(other) != len(whole) for other in others):
            return "neither"
        kinds = set(self._kinds(whole, parts, again))
        return kinds.pop() if len(kinds) == 1 else "neither" if kinds else "mean"

    def _kinds(self, whole: list[Any], parts: list[list[Any]], again: list[Any] | None) -> list[str]:
        """The kind of each value; all lists have the same length."""
        further = again or [None] * len(whole)
        rows = zip(whole, further, *parts, strict=True)
        return [self._kind(value, list(of_parts), more) for value, more, *of_parts in rows]

    def _state_kind(self, state: int) -> str:
        """ "same" if every run reaches the same state, "mean" if the state is the mean of the parts' states, else the kind."""
        before = self._before[state]
        if before.dtype.kind not in "fV" and before.dtype.name != "bfloat16":
            new = [run.new_states.get(state, before) for run in (self.whole, *self.runs)]
            return "same" if all(np.array_equal(new[0], each) for each in new) else "neither"
        whole, *parts = (_wide(run.new_states.get(state, before)) - _wide(before) for run in (self.whole, *self.runs))
        again = None if self._again is None else _wide(self._again.new_states.get(state, before)) - _wide(before)
        rounding = 4 * resolution(before) * size(before)
        allowed = max(rounding, self._noise * size(whole))
        if all(np.allclose(part, whole, rtol=0, atol=allowed, equal_nan=True) for part in parts):
            return "same"
        change = max(size(each) for each in (whole, *parts))
        # In half precision, a layer rounds the state and not its change. A sum stays apart from a mean: it is twice as large.
        least = min(0.2, 2 * self._coarse * size(before) / change) if change else 0.0
        return self._kind(whole, parts, again, least)

    def _is_settled(self, state: int) -> bool:
        """Whether a state changed in the run of all rows."""
        return state in self.whole.new_states and not np.array_equal(self.whole.new_states[state], self._before[state])

    def gather(self, result: Relations, number: int, reason: str) -> None:
        """Mark a member to work on the rows of all replicas, or, if its row axes are unknown, its innermost possible caller."""
        result.reasons.setdefault(number, reason)
        todo = [number]
        while todo:
            each = todo.pop()
            axes = None if each == THE_STEP else self._axes(each)
            if axes is not None:
                result.gathered[each] = axes
            elif each == THE_STEP:
                result.refused = result.refused or self._name(number)
            else:
                todo.extend({caller for (callee, _), caller in self.whole.callers.items() if callee == each})

    def _name(self, number: int) -> str:
        return "the step" if number == THE_STEP else name_of(self.members[number])

    def _axes(self, number: int) -> tuple[CallAxes, ...] | None:
        """The row axes of each call of a member; None where they cannot be determined."""
        calls = []
        for turn in sorted(turn for callee, turn in self.whole.callers if callee == number):
            inputs, outputs = (self._axes_of(number, turn, side) for side in ("in", "out"))
            if inputs is None or outputs is None:
                return None
            if any(axis is not None and axis.times > 1 for axis in (*inputs, *outputs)):
                return None
            calls.append(CallAxes(inputs, outputs))
        return tuple(calls)

    def _axes_of(self, number: int, turn: int, side: str) -> RowAxes | None:
        """The row axes of a call's inputs or outputs, by leaf; None if one is not clear. One that is no tensor has the first."""
        run = self.runs[0]
        places = [place for place in self.whole.tensors if place[:3] == (number, turn, side)]
        if any(place in run.unclear or place not in run.axes for place in places):
            return None
        known = {place.leaf: run.axes[place] for place in places}
        return tuple(known.get(leaf, RowAxis(0, 1)) for leaf in range(max(known, default=-1) + 1))


def _at(values: list[Any], index: int) -> Any:
    """The entry of a list; None after its end."""
    return values[index] if index < len(values) else None


def _wide(values: Any) -> Any:
    return np.asarray(values).astype(np.float64)


def _flat(gradients: list[Any]) -> Any:
    present = [np.ravel(gradient).astype(np.float64) for gradient in gradients if gradient is not None]
    return np.concatenate(present) if present else np.zeros(0)


def _resolution_of(dtype: Any) -> float:
    return {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(str(dtype), 2.0**-23)
