"""The differences between a run of a batch and runs of its parts: how each value follows the rows.

Compared are the outputs of layers and operations, values between them, added losses and the layers' own states.
Not here: how runs are recorded (`calls.py`), and what the differences mean for steps (`conclusions.py`). Imports no framework.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import backend

from abreast.exact.calls import THE_STEP, FullRun, PartRun, PerturbedRun, TensorPlace, as_array, resolution
from abreast.exact.members import members
from abreast.exact.own_step import is_users, overrides_step
from abreast.exact.probe import Probe
from abreast.exact.rows import RowRange, are_rows_of, distance, follows_rows, size

_TIMES_ROUNDING = 16
_ROUNDING_OF_SUMS = 2.0**-20  # of the largest gradient
UNLIKE = ("neither", "related")  # a value of these kinds does not follow the rows
OPEN = ("open", "one part's")  # zeros hide how a value of these kinds follows the rows
Judged = dict[tuple[Any, ...], str]  # the kinds of losses, gradients, logs and values for metrics


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
        before: Judged | None = None,
    ) -> None:
        """`before`: what former runs of the same code have shown."""
        self.members = members(model)
        self.whole, self.runs, self.probe, self.kind_of_step = whole, runs, probe, kind
        self.is_own = overrides_step(model, kind)
        self.untracked = untracked  # by identity: assigned variables that neither the model nor its optimizers hold
        changed = [state for state in [*states, *untracked.values()] if id(state) in whole.new_states]
        self.states_before = {id(state): as_array(state.value) for state in changed}
        self._fine = ("same", "mean") if kind == "train" else ("same",)
        self._before = before or {}
        self._again: PerturbedRun | None = None
        self.reads_kept = False
        self._returns_logs = kind != "predict" and (self.is_own or is_users(model, "compute_metrics"))  # else outputs
        self.logs: dict[str, str] = {}
        halves = {getattr(member, "compute_dtype", None) for member in self.members} & {"float16", "bfloat16"}
        self._coarse = max(map(_resolution_of, halves), default=0.0)
        self._noise = max(probe.noise, 5e-2 if halves else 0.0)
        self._find()

    def suspects(self) -> bool:
        unlike = any(kind in kinds for each in self.given.values() for kinds in each for kind in UNLIKE)
        unlike = unlike or self.gradients not in ("mean", "open")
        unlike = unlike or any(kind != "mean" for kind in self.logs.values())
        return bool(self.places or self.states or self.losses or unlike)

    def clear(self, again: PerturbedRun) -> None:
        self._again = again
        self._find()

    def fine_for(self, state: int) -> tuple[str, ...]:
        """The kinds of a state that steps combine by themselves: no rule averages a variable that Keras does not track."""
        return ("same",) if state in self.untracked else self._fine

    def _find(self) -> None:
        self.judged: Judged = {}
        self.steered = self._calls_with_other_weights()
        self.places = self._related_places()
        kinds = {number: self._as_before(("loss", number), self._loss_kind(number)) for number in self.whole.losses}
        self.losses = {number: kind for number, kind in kinds.items() if kind != "mean"}
        self.states = [state for state in self.states_before if self.state_kind(state) not in self.fine_for(state)]
        self.gradients = self._as_before(("gradients",), self._gradient_kind())
        self.given = {number: self._given_kinds(number) for number in self.whole.given}
        names = sorted(self.whole.logs) if self._returns_logs else []
        self.logs = {name: self._as_before(("log", name), self._log_kind(name)) for name in names}

    def _as_before(self, value: tuple[Any, ...], kind: str) -> str:
        """The kind of a value; where zeros hide it, such as after the units of a layer died, the one of former runs."""
        known = self._before.get(value, kind) if kind in OPEN else kind
        if known not in OPEN:
            self.judged[value] = known
        return known

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
        if (place.number, place.turn) in self.steered:
            return False
        return place.number != THE_STEP or self.kind_of_step == "predict"

    def doer(self, place: TensorPlace) -> int:
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
        self._fill_gradients()
        whole, *parts = ([_flat(gradients) for gradients in run.gradients] for run in (self.whole, *self.runs))
        again = None if self._again is None else [_flat(gradients) for gradients in self._again.gradients]
        kind = self._kind_of_all(whole, parts, again)
        return "neither" if kind == "mean" and self._has_small_gradients_of_another_kind() else kind

    def _fill_gradients(self) -> None:
        """Put zeros where only other runs have a gradient of a weight: their rows choose it."""
        runs = [run.gradients for run in self.all_runs]
        if len({tuple(map(len, run)) for run in runs}) > 1:
            return
        for calls in zip(*runs, strict=True):
            for index, weight in enumerate(zip(*calls, strict=True)):
                known = next((gradient for gradient in weight if gradient is not None), None)
                for gradients in calls if known is not None else ():
                    if gradients[index] is None:
                        gradients[index] = np.zeros_like(known)

    def _has_small_gradients_of_another_kind(self) -> bool:
        """Whether the gradient of a weight is no mean over rows, which larger ones of other weights hide."""
        for calls in zip(*(run.gradients for run in self.all_runs), strict=True):
            largest = max(size(_flat(gradients)) for gradients in calls)
            for gradients in zip(*calls, strict=True):
                if any(each is None for each in gradients):
                    continue
                whole, *others = map(_wide, gradients)
                own = max(map(size, (whole, *others)))
                parts, more = others[: len(self.runs)], None if self._again is None else others[-1]
                least = _ROUNDING_OF_SUMS * largest / own if own else 1.0
                if self._kind(whole, parts, more, least) in ("sum", "neither"):
                    return True
        return False

    def _given_kinds(self, number: int) -> list[list[str]]:
        """For each call of a metric, the ways in which the values that it gets follow the rows."""
        runs = [run.given.get(number, []) for run in self.all_runs]
        return [
            [
                self._as_before(
                    ("given", number, turn, leaf),
                    self._kind_of_value([_at(_at(calls, turn) or [], leaf) for calls in runs]),
                )
                for leaf in range(len(values))
            ]
            for turn, values in enumerate(runs[0])
        ]

    @property
    def all_runs(self) -> list[FullRun]:
        return [self.whole, *self.runs, *([] if self._again is None else [self._again])]

    @staticmethod
    def has_no_rows(values: list[Any]) -> bool:
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
        if self.has_no_rows(values):
            return self._kind(whole, parts, again)
        if not whole.ndim:
            return "neither"
        is_there = all(part is not None for part in parts)
        is_alike = again is not None and again.shape == whole.shape
        noise = self._noise_of(whole, again if is_alike else None)
        return "rows" if is_there and are_rows_of(whole, parts, self._ranges, noise) else "related"

    def _log_kind(self, name: str) -> str:
        kind = self._kind_of_value([run.logs.get(name) for run in self.all_runs])
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

    def state_kind(self, state: int) -> str:
        """ "same" if every run reaches the same state, "mean" if the state is the mean of the parts' states, else the kind."""
        before = self.states_before[state]
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

    def is_settled(self, state: int) -> bool:
        """Whether a state changed in the run of all rows."""
        return state in self.whole.new_states and not np.array_equal(
            self.whole.new_states[state], self.states_before[state]
        )


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
