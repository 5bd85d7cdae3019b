"""The findings about a model that relates the rows of a batch to one another: its members that do so, and how they do it.

Not here: the search that makes them (`relation_search.py`), and the steps that use them (`gathered.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from abreast.exact.rows import RowAxis

RowAxes = tuple[RowAxis | None, ...]
# The findings that say what is computed from which rows.
# Of few rows: decisions of code, which do not begin later; one row may show rounding. Assigned weights: see `assignments.py`.
_NOT_LATE = ("gathered_of_few", "few_rows", "assigned")
_BY_CALL = ("given", "outputs")  # calls and metrics may come later: only what is known of one before can change
_OF_STEPS = ("gathered", "gathered_of_few", "few_rows", "sums", "assigned", "given", "logs", "outputs", "left_in_calls")


@dataclass(frozen=True)
class CallAxes:
    """The row axes of one call's inputs and outputs, leaf by leaf."""

    inputs: RowAxes
    outputs: RowAxes

    @staticmethod
    def of(fields: dict[str, Any]) -> CallAxes:
        """The inverse of `asdict`."""
        return CallAxes(*(_axes_of(fields[side]) for side in ("inputs", "outputs")))


def _axes_of(side: list[dict[str, Any] | None]) -> RowAxes:
    return tuple(None if axis is None else RowAxis(**axis) for axis in side)


@dataclass
class Relations:
    """The findings about a model. Members are named by number (`members.py`), which is the same in all processes."""

    gathered: dict[int, tuple[CallAxes, ...]] = field(default_factory=dict)
    # Members that compute otherwise from few rows, such as `squeeze` of one row: gathered where a device has `few_rows` or less.
    gathered_of_few: dict[int, tuple[CallAxes, ...]] = field(default_factory=dict)
    few_rows: int = 0
    unlike_few: str = ""  # such a member that cannot be gathered
    sums: set[int] = field(default_factory=set)  # members whose added losses are sums over rows
    refused: str = ""  # the reason why the model cannot be trained as it is
    reasons: dict[int, str] = field(default_factory=dict)
    no_means: str = ""  # a result of the user's own step that is not a mean over rows
    open: str = ""  # a number that is 0 in all rows that were looked at: it may be a mean or a sum over rows
    of_one_part: str = ""  # a sum over rows that is 0 in one of the two parts: it may be a mean over some rows
    foreign: str = ""  # an attribute with a framework variable that a step changes and Keras does not track
    makes_metrics: bool = False  # whether a step makes metrics of the model
    writes_rows: bool = False  # whether the model writes into the arrays of its batch
    is_failure: bool = False  # whether the check could not run
    draws: bool = False  # whether the model draws random numbers without Keras
    reads_values: bool = False  # whether the user's code reads values of tensors in Python
    depends_on_values: bool = False  # whether replicas may take different paths
    left: str = ""  # the Python attribute in which a step leaves results of its rows, for readers after the step
    apart: str = ""  # the Python attribute in which a call leaves results of its rows, for code on all rows
    # By member and attribute in which a call leaves a tensor for such code: "rows" (one entry per row), "mean" or "sum".
    left_in_calls: dict[tuple[int, str], str] = field(default_factory=dict)
    kept: str = ""  # the Python attribute in which a layer keeps results of its rows for its next call
    assigned: set[int] = field(default_factory=set)  # indices in `model.variables` of weights that a user's step sets
    # `{"KIND OF STEP NUMBER OF METRIC": kinds}`: per call of the metric, the kind of each value that it gets: "rows" for an array
    # with an axis of rows; "mean" or "sum" for a value for a whole batch.
    given: dict[str, list[list[str]]] = field(default_factory=dict)
    # The row axes of the model's outputs, in training and not, if not every output has one entry per row along its first axis.
    outputs: dict[bool, RowAxes] = field(default_factory=dict)
    # By kind of step and name: the numbers that it returns and that are sums over rows, and arrays without an axis of rows.
    logs: dict[str, dict[str, str]] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set, compare=False)  # identities of the states whose rule is known
    judged: dict[tuple[Any, ...], str] = field(default_factory=dict, compare=False)  # see `RunDifferences`
    # Identities of variables that the model does not hold, and to which the replicas of a step each add their rows' part.
    added: set[int] = field(default_factory=set, compare=False)

    def __bool__(self) -> bool:
        found = (self.gathered, self.sums, self.assigned, self.given, self.outputs, self.logs, self.left_in_calls)
        return any(found) or bool(self.few_rows) or self.depends_on_values or self.writes_rows or self.makes_metrics

    def is_part_of(self, other: Relations) -> bool:
        """Whether steps by the findings of `other` already compute what these findings ask for."""
        new = replace(other)
        # The losses of members on all rows are those of all rows.
        new.add(replace(self, sums=self.sums - other.gathered.keys()))
        return all(
            all(getattr(new, name)[key] == value for key, value in getattr(other, name).items())
            if name in _BY_CALL
            else getattr(new, name) == getattr(other, name)
            for name in _OF_STEPS
            if name not in _NOT_LATE
        )

    def with_steps_of(self, other: Relations) -> Relations:
        """These findings, with steps as by those of `other`."""
        return replace(self, **{name: getattr(other, name) for name in (*_OF_STEPS, "refused", "reasons")})

    def has_few(self, counts: Sequence[int]) -> bool:
        """Whether a device has so few of these numbers of rows that members compute otherwise."""
        return bool(self.few_rows and counts) and min(counts) <= self.few_rows

    def for_rows(self, counts: Sequence[int]) -> Relations:
        """The findings for a step in which the devices have these numbers of rows."""
        if self.has_few(counts):
            return replace(self, gathered={**self.gathered_of_few, **self.gathered})
        return self

    def steps_part(self) -> str:
        """The findings that the steps of another process need, as JSON; `of_steps_part` reads them."""
        gathered, of_few = (
            {number: [asdict(call) for call in calls] for number, calls in found.items()}
            for found in (self.gathered, self.gathered_of_few)
        )
        rest: dict[str, Any] = {"sums": sorted(self.sums), "assigned": sorted(self.assigned), "given": self.given}
        outputs = [
            (training, [None if axis is None else asdict(axis) for axis in axes])
            for training, axes in self.outputs.items()
        ]
        rest |= {"outputs": outputs, "logs": self.logs, "depends_on_values": self.depends_on_values}
        rest |= {"writes_rows": self.writes_rows, "makes_metrics": self.makes_metrics}
        rest["left_in_calls"] = [(*place, kind) for place, kind in self.left_in_calls.items()]
        return json.dumps({"gathered": gathered, "gathered_of_few": of_few, "few_rows": self.few_rows, **rest})

    @staticmethod
    def of_steps_part(text: str) -> Relations:
        part = json.loads(text)
        gathered, of_few = (
            {int(number): tuple(map(CallAxes.of, calls)) for number, calls in part[name].items()}
            for name in ("gathered", "gathered_of_few")
        )
        outputs = {training: _axes_of(axes) for training, axes in part["outputs"]}
        return Relations(
            gathered,
            of_few,
            part["few_rows"],
            sums=set(part["sums"]),
            assigned=set(part["assigned"]),
            given=part["given"],
            outputs=outputs,
            logs=part["logs"],
            depends_on_values=part["depends_on_values"],
            writes_rows=part["writes_rows"],
            makes_metrics=part["makes_metrics"],
            left_in_calls={(number, name): kind for number, name, kind in part["left_in_calls"]},
        )

    def add(self, other: Relations) -> None:
        self.gathered = {**other.gathered, **self.gathered}
        self.gathered_of_few = {**other.gathered_of_few, **self.gathered_of_few}
        self.few_rows = max(self.few_rows, other.few_rows)
        self.unlike_few = self.unlike_few or other.unlike_few
        self.sums = self.sums | other.sums
        self.assigned = self.assigned | other.assigned
        # The later check counts, unless a number is 0 in its rows, which do not show what it is.
        first, last = (other, self) if other.open else (self, other)
        self.given, self.logs = {**first.given, **last.given}, {**first.logs, **last.logs}
        self.reasons = {**other.reasons, **self.reasons}
        self.refused = self.refused or other.refused
        self.no_means = self.no_means or other.no_means
        self.open = self.open or other.open
        self.of_one_part = self.of_one_part or other.of_one_part
        self.draws = self.draws or other.draws
        self.foreign = self.foreign or other.foreign
        self.kept = self.kept or other.kept
        self.left = self.left or other.left
        self.apart = self.apart or other.apart
        self.left_in_calls = {**other.left_in_calls, **self.left_in_calls}
        self.outputs = {**other.outputs, **self.outputs}
        self.makes_metrics |= other.makes_metrics
        self.writes_rows |= other.writes_rows
        self.reads_values |= other.reads_values
        self.depends_on_values |= other.depends_on_values
        self.settled = self.settled | other.settled
        self.added = self.added | other.added
