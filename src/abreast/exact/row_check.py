"""The row check before a model's first step on several devices: it finds parts of the model that relate the rows of a batch.

The findings are kept for the model, and reported once. Not here: the search (`relation_search.py`), the texts
(`row_check_texts.py`), and the use of the findings in steps (`gathered.py`). Imports no framework.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import keras

from abreast import ever_rarer
from abreast.errors import ModelError
from abreast.exact.install import install
from abreast.exact.members import has_metrics_of_calls, members, name_of
from abreast.exact.own_step import call_in_step, is_users, overrides_step
from abreast.exact.probe import Probe
from abreast.exact.relation_search import failure, many_rows, parts_to_look_at, relations
from abreast.exact.relations import Relations
from abreast.exact.row_check_texts import say, say_late, tell_limits
from abreast.exact.rows import RowRange
from abreast.exact.run_differences import Judged
from abreast.exact.warn_once import warn_once
from abreast.stdout import without_styles


@dataclass
class _Checked:
    """The findings of the last check, and the kinds of numbers in the batches whose rows the checks looked at.

    `compiled`: the model's arguments of `compile` as of the last check. `steps`: those since the first check. The last check was
    after `last_look` of them, and the next one is after `next_look`. `changes`: those of the model's Python state since the first
    check.
    `functions`: for each kind, the step function that used the findings last.
    """

    found: Relations = field(default_factory=Relations)
    compiled: weakref.ref[Any] | None = None
    marks: set[Any] = field(default_factory=set)
    steps: int = 0
    last_look: int = 0
    next_look: int = 4
    changes: int = 0
    is_stale: bool = True  # as before the first check
    had_equal_rows: bool = False  # whether the inputs showed no relation, because all rows of the batch were equal
    functions: dict[str, object] = field(default_factory=dict)

    @property
    def is_due(self) -> bool:
        """Whether so many steps were made since the first check that another one is due."""
        return self.steps >= self.next_look

    @property
    def is_old(self) -> bool:
        return self.is_stale or self.is_due

    def changed(self) -> None:
        """Count a change. After the first ones, changes are probably numbers that a callback sets at every step."""
        self.changes += 1
        self.is_stale = self.is_stale or ever_rarer.is_due(self.changes)

    def used_by(self, kind: str, function: object) -> None:
        """A function that replaces another of its kind is traced again, and so runs the user's present code."""
        self.is_stale = self.is_stale or self.functions.get(kind, function) is not function
        self.functions[kind] = function

    def renew(self, found: Relations, compiled: weakref.ref[Any] | None, marks: set[Any], has_equal_rows: bool) -> None:
        if self.is_due:
            self.next_look *= 4
        self.found, self.compiled, self.is_stale, self.last_look = found, compiled, False, self.steps
        self.had_equal_rows = has_equal_rows
        self.marks |= marks


_found: WeakKeyDictionary[Any, Relations] = WeakKeyDictionary()
_checked: WeakKeyDictionary[Any, dict[tuple[Any, ...], _Checked]] = WeakKeyDictionary()


def related_rows(model: Any) -> Relations | None:
    """The findings of all checks of a model so far; None if its steps need no change."""
    return _found.get(model) or None


def is_checked(model: Any) -> bool:
    return model in _found


def keeps_rows_in_python(model: Any) -> bool:
    """Whether code of a model keeps results of its rows in Python, as was announced: replicas have their own."""
    found = _found.get(model)
    return found is not None and bool(found.kept or found.left or found.apart)


def settled_states(model: Any) -> set[int]:
    """Identities of the variables that changed in a check: steps combine them as one device would."""
    return _found[model].settled if is_checked(model) else set()


def added_states(model: Any) -> set[int]:
    """Identities of the variables outside the model to which each replica adds the part of its rows."""
    return _found[model].added if is_checked(model) else set()


class Batch(Protocol):
    """A batch whose rows are all in this process."""

    @property
    def has_equal_rows(self) -> bool:
        """Whether all rows of the inputs are equal."""
        ...

    def marks(self, known: set[Any]) -> set[Any]:
        """The kinds of numbers in its rows, without the known ones."""
        ...


class RowCheck:
    """The check for the steps of one kind; it runs at the first batch that has at least two rows, if it is `wanted`.

    It runs again after 4, 16, 64, ... steps, because code may decide by numbers that the first rows and weights do not lead to;
    after `compile` and `make_train_function(force=True)`, because the user's code may have changed before; after changes that the
    backend reports; and at the first batch whose rows differ. A user's own step is also checked again at a batch with a kind of
    number that no batch had, by which the step may mask its rows.
    """

    def __init__(self, kind: str, model: Any, wanted: bool, is_traced: bool = False) -> None:
        """`is_traced`: whether the step is a graph, which does not see later changes of the Python that made it."""
        self.kind, self._model, self._is_traced = kind, model, is_traced
        self._wanted = wanted
        self._is_watching = wanted and overrides_step(model, kind)
        self._marks: set[Any] = set()
        self._has_equal_rows = False
        self._last: _Checked | None = None
        self._function = object()  # stands for the step function of this check
        self.is_due = wanted

    def meet(self, batch: Batch | None) -> None:
        """Meet a batch before its step; None: only a part of it is here."""
        if not self._wanted:
            return
        known = self._last
        if batch is not None and (known is None or known.had_equal_rows):
            self._has_equal_rows = batch.has_equal_rows
            self.is_due = self.is_due or not self._has_equal_rows
        if self._is_watching and batch is not None and (new := batch.marks(self._marks)):
            self._marks |= new
            self.is_due = True
        if known is not None:
            known.steps += 1
            self.is_due = self.is_due or known.is_old

    def model_changed(self) -> None:
        """The user's code has changed Python state that the model's step reads."""
        if self._last is not None:
            self._last.changed()
            self.is_due = self.is_due or self._last.is_old

    def __call__(self, rows: int, shard_rows: int, num_bytes: int, take: Callable[[int], Any], probe: Probe) -> None:
        """Check the model, or report the findings of an earlier check. Raises `ModelError`.

        `take(n)` returns `n` rows of the batch, as tensors.
        """
        looks = parts_to_look_at(rows, shard_rows, num_bytes // rows)
        if not looks:
            return
        self.is_due = False
        checked = _checked.setdefault(self._model, {})
        own = overrides_step(self._model, self.kind)
        # Otherwise `evaluate` and `predict` run the same code.
        is_alone = own or _computes_metrics(self.kind, self._model) or has_metrics_of_calls(self._model)
        key = (self.kind if is_alone else self.kind == "train", *map(id, members(self._model)))
        known = checked.setdefault(key, _Checked())
        known.used_by(self.kind, self._function)
        compiled = _compile_arguments(self._model)
        shows_more = known.had_equal_rows > self._has_equal_rows or not self._marks <= known.marks
        seen = 0  # rows that a check of this batch has compared
        if known.is_old or known.compiled != compiled or shows_more:
            install()
            is_by_steps = not (known.is_stale or known.compiled != compiled or shows_more)
            judged = known.found.judged if is_by_steps else {}  # else the code may have changed
            for parts in looks:
                found = self._look(take, parts, probe, many_rows(rows, num_bytes // rows), (rows, shard_rows), judged)
                if not (found.open or found.of_one_part):
                    break
            all_found = _found.setdefault(self._model, Relations())
            if is_by_steps and not found.is_part_of(all_found):
                say_late(self._model, known.steps, known.last_look, found, all_found, self._is_traced)
            if is_by_steps and self._is_traced:
                # Else the step would be traced again, and see other Python than plain Keras's.
                found = found.with_steps_of(known.found)
            known.renew(found, compiled, self._marks, self._has_equal_rows)
            all_found.add(found)
            seen = 0 if found.is_failure else parts[0].total
        self._last = known
        say(self.kind, self._model, known.found, own)
        if seen:
            tell_limits(self.kind, self._model, seen, known.found, own)

    def _look(
        self,
        take: Callable[[int], Any],
        parts: list[RowRange],
        probe: Probe,
        most_rows: int,
        sizes: tuple[int, int],
        judged: Judged,
    ) -> Relations:
        """`sizes`: the rows of the batch, and the most that a device gets of them."""
        model = self._model
        try:
            return relations(model, _forward(self.kind, model), take, parts, probe, self.kind, most_rows, judged)
        except (
            Exception
        ) as error:  # the user's code may fail only on few rows; any other failure shows again in the step
            if (of_part := self._failure_on_a_part(take, probe, *sizes)) is not None:
                raise ModelError(
                    f"{name_of(model)} works on a batch of {sizes[0]} rows and fails on the {sizes[1]} rows of a device: "
                    f"{type(of_part).__name__}: {_begin_of(of_part)}",
                    "leave out `batch_size` in `keras.Input`, write -1 for the rows of a reshape, and make other tensors with "
                    "`keras.ops.shape(x)[0]` rows; or train it with KERAS_BACKEND=jax or on one device",
                ) from error
            warn_once(
                model,
                "unchecked rows",
                f"the check whether {name_of(model)} relates the rows of a batch to one another failed on "
                f"{parts[0].total} rows ({type(error).__name__}: {_begin_of(error)}): if it does, each replica computes from its "
                f"own rows, weighted by their number, which is not what one device computes",
            )
            return Relations(depends_on_values=True, is_failure=True)

    def _failure_on_a_part(
        self, take: Callable[[int], Any], probe: Probe, rows: int, shard_rows: int
    ) -> Exception | None:
        """The exception that ends the step on as many rows as a device gets, if it runs on all rows of the batch.

        None if a layer is stateful, which is why it needs them: `check_layers` refuses such a layer by name.
        """
        if any(getattr(layer, "stateful", False) for layer in self._model._flatten_layers()):
            return None
        step = _forward(self.kind, self._model)
        if failure(self._model, step, take(rows), probe) is not None:
            return None
        return failure(self._model, step, take(shard_rows), probe)


def _compile_arguments(model: Any) -> weakref.ref[Any] | None:
    """A reference to the object that each call of `compile` makes anew."""
    made = getattr(model, "_compile_config", None)
    return None if made is None else weakref.ref(made)


def _begin_of(error: Exception) -> str:
    """The first two lines of an error without styles: Keras names the layer in the first."""
    lines = [line.strip() for line in without_styles(str(error)).splitlines()]
    return " ".join([line for line in lines if line][:2])[:300]


def _forward(kind: str, model: Any) -> Callable[[Any], Any]:
    if overrides_step(model, kind):
        return getattr(model, f"{kind}_step")  # type: ignore[no-any-return]
    call, computes_metrics = call_in_step(kind, model), _computes_metrics(kind, model)

    def forward(data: Any) -> Any:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        y_pred = call(x)
        return model.compute_metrics(x, y, y_pred, weight) if computes_metrics else y_pred

    return forward


def _computes_metrics(kind: str, model: Any) -> bool:
    return kind != "predict" and is_users(model, "compute_metrics")
