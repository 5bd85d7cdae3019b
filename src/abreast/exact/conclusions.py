"""`Conclusions`: a rule for each part of a model, such as to run it on the rows of all replicas.

The innermost member that causes a difference works on the rows of all replicas from then on (`gathered.py`). Not here: how runs
are compared (`run_differences.py`). Imports no framework.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import backend

from abreast.exact.calls import THE_STEP
from abreast.exact.members import leaf_metrics, name_of
from abreast.exact.relations import CallAxes, Relations, RowAxes
from abreast.exact.rows import RowAxis
from abreast.exact.run_differences import UNLIKE, RunDifferences

# The kinds in steps: the rows show none for the first two.
_COUNTS_AS = {"open": "mean", "one part's": "sum", "related": "rows"}
_WORDS = {
    "sum": "a sum over rows",
    "neither": "neither a mean nor a sum over rows",
    "related": "computed from other rows, too",
    "open": "0 in all rows of the first batch that were looked at",
    "one part's": "0 in one half of the rows of the first batch that were looked at",
}


class Conclusions:
    """The meaning of the differences between runs for the steps of a model."""

    def __init__(self, found: RunDifferences) -> None:
        self._found = found

    def relations(self) -> Relations:
        result = Relations(settled={state for state in self._found.states_before if self._found.is_settled(state)})
        result.assigned = self._assigned(result.settled)
        counted = {
            number: [[_COUNTS_AS.get(kind, kind) for kind in call] for call in calls]
            for number, calls in self._found.given.items()
            if any(_COUNTS_AS.get(kind, kind) != "rows" for call in calls for kind in call)
        }
        sees_all = self._settle_outputs(result)
        if logs := {} if sees_all else self._kinds_of_logs():
            result.logs[self._found.kind_of_step] = logs
        result.given = {f"{self._found.kind_of_step} {number}": kinds for number, kinds in counted.items()}
        for number, (metric, kind) in self._metrics_given(*UNLIKE).items():
            if number != THE_STEP:
                self.gather(result, number, f"it gives {metric.name} a value that is {_WORDS[kind]}")
        if not sees_all and not (self._found.is_own and self._found.places):
            self.judge_own_code(result)
        for place, far in self._found.places.items():
            if place.side == "mask":
                result.no_means = (
                    f"in which {self._name(place.number)} computes a mask that relates rows to one another"
                )
                continue
            how = f"by {far:.1g} of their size" if np.isfinite(far) else "in shape, or in what is finite"
            self.gather(result, self._found.doer(place), f"its results for the same rows differ {how}")
        for number, kind in self._found.losses.items():
            if kind == "sum":
                result.sums.add(number)
            elif kind == "open" and self._found.members[self._found.whole.adders[number]] is self._found.members[0]:
                result.open = result.open or f"which adds a loss that is {_WORDS[kind]}"
            else:
                self.gather(result, self._found.whole.adders[number], f"a loss that it adds is {_WORDS[kind]}")
        for state in result.settled & self._found.whole.read_states:
            self._gather_if_mean(result, state, self._found.whole.owners[state])
        for state in self._found.states:
            self._gather_state(result, state, self._found.whole.owners.get(state, THE_STEP))
        return result

    def judge_own_code(self, result: Relations) -> None:
        """Add what the user's own step computes and what is no mean over rows."""
        result.no_means = (
            self._changed_weights()
            or self._gradient_that_is("neither", "sum", "one part's")
            or self._number_that_is(*UNLIKE)
        )
        result.open = self._gradient_that_is("open") or self._number_that_is("open")
        result.of_one_part = self._number_that_is("one part's")

    def gather_states_named(self, result: Relations, names: set[str]) -> None:
        """Gather the members with a state that is a mean over rows and whose attribute has one of these names."""
        for state in result.settled:
            owner = self._found.whole.owners.get(state, THE_STEP)
            space = {} if owner == THE_STEP else vars(self._found.members[owner])
            if any(id(value) == state and name in names for name, value in space.items()):
                self._gather_if_mean(result, state, owner)

    def gather(self, result: Relations, number: int, reason: str) -> None:
        """Mark a member to work on the rows of all replicas, or, if its row axes are unknown, its innermost possible caller."""
        result.reasons.setdefault(number, reason)
        gathered = self._gathered(number)
        result.gathered.update({each: axes for each, axes in gathered.items() if axes is not None})
        if THE_STEP in gathered:
            result.refused = result.refused or self._name(number)

    def gather_of_few(self, result: Relations, numbers: set[int], few_rows: int) -> None:
        """Mark members to work on the rows of all replicas where a device has few rows."""
        for number in numbers:
            gathered = self._gathered(number)
            result.gathered_of_few.update({each: axes for each, axes in gathered.items() if axes is not None})
            result.few_rows = few_rows
            if THE_STEP in gathered:
                result.unlike_few = self._name(number)

    def _gathered(self, number: int) -> dict[int, tuple[CallAxes, ...] | None]:
        """The members to gather for one of them, with their axes; `THE_STEP`, without, if there is none around it."""
        gathered: dict[int, tuple[CallAxes, ...] | None] = {}
        todo = [number]
        while todo:
            each = todo.pop()
            axes = None if each == THE_STEP else self._axes(each)
            if axes is not None or each == THE_STEP:
                gathered[each] = axes
            else:
                todo.extend({caller for (callee, _), caller in self._found.whole.callers.items() if callee == each})
        return gathered

    def _gather_if_mean(self, result: Relations, state: int, owner: int) -> None:
        if self._found.state_kind(state) == "mean":
            self.gather(result, owner, "a state that it changes by its rows is read in the same step")

    def _gather_state(self, result: Relations, state: int, owner: int) -> None:
        variable = self._found.untracked.get(state)
        if variable is None:
            self.gather(result, owner, "a state that it changes is not that of one device")
        elif owner != THE_STEP:
            self.gather(
                result, owner, f"it changes {variable.name!r}, a variable that Keras does not track, by its rows"
            )
        elif self._found.state_kind(state) == "sum" and self._found.probe.is_one_process:
            result.added.add(state)  # every replica adds the part of its rows to the one variable
        else:
            result.no_means = f"which changes {variable.name!r}, a variable that Keras does not track, by its rows"

    def _kinds_of_logs(self) -> dict[str, str]:
        """How steps combine the values that they return: those of sums, and of all arrays without an axis of rows."""
        kinds = {
            name: "sum" if _COUNTS_AS.get(kind, kind) == "sum" else "mean" for name, kind in self._found.logs.items()
        }
        return {
            name: kind
            for name, kind in kinds.items()
            if kind == "sum"
            or (
                self._found.whole.logs[name].ndim
                and self._found.has_no_rows([run.logs.get(name) for run in self._found.all_runs])
            )
        }

    def _metrics_given(self, *kinds: str) -> dict[int, tuple[Any, str]]:
        """By the member whose call gave it: a metric that got a value that follows the rows in one of these ways, and the way."""
        metrics = leaf_metrics(self._found.members[0])
        return {
            giver: (metrics[number], kind)
            for number, calls in self._found.given.items()
            for giver, found in zip(self._found.whole.givers[number], calls, strict=True)
            for kind in kinds
            if kind in found
        }

    def _settle_outputs(self, result: Relations) -> bool:
        """Let losses and metrics see all rows, if outputs have other axes or the user's `compute_metrics` relates rows.

        Returns whether the user's `compute_metrics` sees all rows.
        """
        number = THE_STEP if self._found.kind_of_step == "predict" else 0
        axes = self._axes_of(number, 0, "out")
        is_unlike = "neither" in self._found.logs.values() or THE_STEP in self._metrics_given(*UNLIKE)
        relates = is_unlike and not self._found.is_own
        if axes and (relates or any(axis != RowAxis(0, 1) for axis in axes)):
            result.outputs[self._found.kind_of_step == "train"] = axes
            return not self._found.is_own
        return False

    def _changed_weights(self) -> str:
        """The member whose weights a user's step changes by its rows before it calls the member, in words; else ""."""
        if not self._found.steered:
            return ""
        number, _ = min(self._found.steered)
        return f"which changes weights of {self._name(number)} by its rows before it calls it again"

    def _gradient_that_is(self, *kinds: str) -> str:
        """The gradient of a user's step, in words, if it follows the rows in one of these ways; else ""."""
        return f"whose gradient is {_WORDS[self._found.gradients]}" if self._found.gradients in kinds else ""

    def _number_that_is(self, *kinds: str) -> str:
        """The first value of a user's step, in words, that follows the rows in one of these ways; "" if there is none."""
        for name, kind in self._found.logs.items():
            if kind in kinds:
                return f"which returns a {name!r} that is {_WORDS[kind]}"
        for giver, (metric, kind) in self._metrics_given(*kinds).items():
            if kind not in UNLIKE or giver == THE_STEP:  # else the member is gathered
                return f"which gives {metric.name} a value that is {_WORDS[kind]}"
        return ""

    def _assigned(self, settled: set[int]) -> set[int]:
        """Indices of the weights that a user's step sets itself, to means over rows; no other rule combines them."""
        model = self._found.members[0]
        known = {id(each) for layer in model._flatten_layers() for each in layer._non_trainable_variables}
        return {
            place
            for place, variable in enumerate(model.variables)
            if id(variable) in settled - known and backend.is_float_dtype(variable.dtype)
        }

    def _name(self, number: int) -> str:
        return "the step" if number == THE_STEP else name_of(self._found.members[number])

    def _axes(self, number: int) -> tuple[CallAxes, ...] | None:
        """The row axes of each call of a member; None where they cannot be determined."""
        calls = []
        for turn in sorted(turn for callee, turn in self._found.whole.callers if callee == number):
            inputs, outputs = (self._axes_of(number, turn, side) for side in ("in", "out"))
            if inputs is None or outputs is None:
                return None
            if any(axis is not None and axis.times > 1 for axis in (*inputs, *outputs)):
                return None
            calls.append(CallAxes(inputs, outputs))
        return tuple(calls)

    def _axes_of(self, number: int, turn: int, side: str) -> RowAxes | None:
        """The row axes of a call's inputs or outputs, by leaf; None if one is not clear. One that is no tensor has the first."""
        run = self._found.runs[0]
        places = [place for place in self._found.whole.tensors if place[:3] == (number, turn, side)]
        if any(place in run.unclear or place not in run.axes for place in places):
            return None
        known = {place.leaf: run.axes[place] for place in places}
        return tuple(known.get(leaf, RowAxis(0, 1)) for leaf in range(max(known, default=-1) + 1))
