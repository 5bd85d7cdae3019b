"""The check of a model before its first step on several devices: does anything of it relate the rows of a batch?

What is found is kept for the model, and said once. Not here: how it is found (`relations.py`), and what steps do with it
(`gathered.py`). Imports Keras; no framework.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import keras

from abreast.errors import ModelError
from abreast.exact.install import install
from abreast.exact.layers import announce_random
from abreast.exact.members import members, name_of
from abreast.exact.own_step import is_users, overrides_step
from abreast.exact.relations import Probe, Relations, relations, rows_to_look_at
from abreast.exact.warn_once import warn_once

_found: WeakKeyDictionary[Any, Relations] = WeakKeyDictionary()
_checked: WeakKeyDictionary[Any, dict[tuple[Any, ...], Relations]] = WeakKeyDictionary()


def related_rows(model: Any) -> Relations | None:
    """What checks have found of a model until now; None where nothing of it has to be counted in another way."""
    return _found.get(model) or None


def is_checked(model: Any) -> bool:
    return model in _found


def settled_states(model: Any) -> set[int]:
    """The identities of the variables that a check saw change: steps combine them as one device would."""
    return _found[model].settled if is_checked(model) else set()


class RowCheck:
    """For the steps of one kind of a model: checks it at the first batch that has two rows."""

    def __init__(self, kind: str, model: Any) -> None:
        self._kind, self._model = kind, model
        self.is_due = True

    def __call__(self, rows: int, shard_rows: int, num_bytes: int, take: Callable[[int], Any], probe: Probe) -> None:
        """`take(n)` gives the first `n` rows of the batch, as tensors. Raises `ModelError`."""
        part_rows = rows_to_look_at(rows, shard_rows, num_bytes // rows)
        if not part_rows:
            return
        self.is_due = False
        checked = _checked.setdefault(self._model, {})
        own = overrides_step(self._model, self._kind)
        key = (self._kind if own else self._kind == "train", *map(id, members(self._model)))
        if key not in checked:
            install()
            checked[key] = self._look(take(2 * part_rows), part_rows, probe)
        _say(self._kind, self._model, checked[key], own)

    def _look(self, data: Any, part_rows: int, probe: Probe) -> Relations:
        model = self._model
        try:
            found = relations(model, _forward(self._kind, model), data, part_rows, probe, self._kind)
        except Exception as error:  # whatever a user's code raises on fewer rows; if it is more, the step raises it too
            warn_once(
                model,
                "unchecked rows",
                f"whether {name_of(model)} relates the rows of a batch to one another could not be found out with "
                f"{2 * part_rows} rows of one ({type(error).__name__}: {next(iter(str(error).splitlines()), '')})",
            )
            return Relations()
        _found.setdefault(model, Relations()).add(found)
        return found


def _forward(kind: str, model: Any) -> Callable[[Any], Any]:
    if overrides_step(model, kind):
        return getattr(model, f"{kind}_step")  # type: ignore[no-any-return]
    training = {"training": kind == "train"} if model._call_has_training_arg else {}

    computes_metrics = kind != "predict" and is_users(model, "compute_metrics")

    def forward(data: Any) -> Any:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        y_pred = model(x, **training)
        return model.compute_metrics(x, y, y_pred, weight) if computes_metrics else y_pred

    return forward


def _say(kind: str, model: Any, found: Relations, own_step: bool) -> None:
    everyone = members(model)
    what = [f"{name_of(everyone[number])} ({reason})" for number, reason in found.reasons.items() if number >= 0]
    if found.refused and (not own_step or kind == "predict"):
        raise ModelError(
            f"{'; '.join(what) or f'the {kind}_step of {type(model).__name__}'}: the rows of a batch are related to one another, "
            "and each replica sees its own only",
            "train it on one device, or with KERAS_BACKEND=jax, whose layers see all rows",
        )
    if found.foreign:
        raise ModelError(
            f"{found.foreign} is a tf.Variable that Keras does not know, and that the model's call changes: every replica would "
            "change the same one",
            "make it with add_weight, or as a keras.Variable",
        )
    if found.draws:
        announce_random(model)
    if found.kept:
        warn_once(
            model,
            f"kept {found.kept}",
            f"{found.kept} keeps in Python what it makes of its rows, for its next call: each device keeps that of its own rows, "
            "which is not what one device keeps. A variable (add_weight) would be shared",
        )
    if found.no_means or found.refused:
        warn_once(
            model,
            f"own {kind}_step",
            f"{type(model).__name__} {_whose(kind, model, own_step)}, {found.no_means or 'which relates rows to one another'}: "
            "each replica computes it of its own rows, and counts by them, which is not what one device computes",
        )
    if found.gathered:
        warn_once(
            model,
            f"related rows of {sorted(found.gathered)}",
            f"the rows of a batch are related to one another by {'; '.join(what)}. Each device computes "
            f"{', '.join(name_of(everyone[number]) for number in found.gathered)} for all rows of the batch: that is what one "
            "device computes, and no faster",
        )


def _whose(kind: str, model: Any, own_step: bool) -> str:
    if own_step:
        return f"has its own {kind}_step"
    return "has its own compute_metrics" if is_users(model, "compute_metrics") else "updates metrics in its call"
