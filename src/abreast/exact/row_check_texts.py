"""The errors and warnings about findings of the row check, and the line about code in which it found nothing.

Not here: the check (`row_check.py`). Imports no framework.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from abreast.errors import ModelError
from abreast.exact.layers import announce_random
from abreast.exact.members import members, name_of
from abreast.exact.own_step import is_users
from abreast.exact.relations import Relations
from abreast.exact.replica import other_rows
from abreast.exact.users_code import first_of, names_of_users_code
from abreast.exact.warn_once import warn_once
from abreast.stderr import tell_for_all
from abreast.units import counted

_told: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # the names by model


def tell_limits(kind: str, model: Any, rows: int, found: Relations, own_step: bool) -> None:
    """Print, once each, in which code that is not Keras's the check of so many `rows` found no relation between rows."""
    if found.refused or found.outputs:
        return
    related = found.gathered.keys() | found.sums
    everyone = [each for number, each in enumerate(members(model)) if number not in related]
    has_own_step = own_step and not (found.no_means or found.open or found.of_one_part)
    names = names_of_users_code(model, everyone, kind if has_own_step else None)
    told = _told.setdefault(model, set())
    new = [name for name in names if name not in told]
    told.update(new)
    if new:
        tell_for_all(
            f"the row check found no relation between rows in {first_of(new)}, from {rows} rows. "
            "It looks again after 4, 16, 64, ... steps"
        )


def say(kind: str, model: Any, found: Relations, own_step: bool) -> None:
    """Raise `ModelError` for what replicas cannot compute; warn, once each, of what differs from one device."""
    everyone = members(model)
    what = [f"{name_of(everyone[number])} ({reason})" for number, reason in found.reasons.items() if number >= 0]
    _refuse(kind, model, found, own_step, what)
    if found.draws:
        announce_random(model)
    code = f"{type(model).__name__} {_whose(kind, model, own_step)}"
    about = _topic(kind, model, own_step)
    for topic, text in (*_of_python(found, code, about), *_of_numbers(found, code, about)):
        warn_once(model, topic, text)
    if found.gathered:
        warn_once(
            model,
            f"related rows of {sorted(found.gathered)}",
            f"the rows of a batch are related to one another by {'; '.join(what)}. Each device computes "
            f"{', '.join(name_of(everyone[number]) for number in found.gathered)} for all rows of the batch: the result is that "
            "of one device, and this part gets no faster",
        )


def say_late(model: Any, steps: int, last_look: int, found: Relations, earlier: Relations, is_traced: bool) -> None:
    """Warn of relations that a check after some `steps` found, and the one after `last_look` steps did not."""
    everyone = members(model)
    new = (found.gathered.keys() | found.sums) - (earlier.gathered.keys() | earlier.sums)
    names = "; ".join(
        f"{name_of(everyone[number])}" + (f" ({found.reasons[number]})" if number in found.reasons else "")
        for number in sorted(new)
        if number >= 0
    )
    what = (
        "Each device goes on to compute from its own rows, which is not what one device computes, unless only Python code has "
        "changed: a traced step does not see that"
        if is_traced
        else "In the steps between, each device may have computed from its own rows, which is not what one device computes"
    )
    warn_once(
        model,
        f"late {steps}",
        f"after {counted(steps, 'step')}, the rows of a batch are related to one another by {names or 'the step'}, and "
        f"they were not after {last_look}. {what}",
    )


def _refuse(kind: str, model: Any, found: Relations, own_step: bool, what: list[str]) -> None:
    if found.refused and (not own_step or kind == "predict"):
        raise ModelError(
            f"{'; '.join(what) or f'the {kind}_step of {type(model).__name__}'}: the rows of a batch are related to one another, "
            "and each replica sees only its own rows",
            ("" if kind == "predict" else "compute this part in compute_loss, which gets the rows of all devices, or ")
            + "train it on one device, or with KERAS_BACKEND=jax, where layers see all rows",
        )
    if kind == "predict" and found.outputs:
        raise other_rows()
    if found.foreign:
        raise ModelError(
            f"{found.foreign} is a tf.Variable that Keras does not track and that the model's {_whose_code(own_step, kind)} "
            "changes: all replicas would change the same variable",
            "create it with add_weight, or as a keras.Variable",
        )


def _of_python(found: Relations, code: str, about: str) -> Iterator[tuple[str, str]]:
    """Topics and texts of the warnings about Python that the code of a step runs."""
    if found.kept:
        yield (
            f"kept {found.kept}",
            f"{found.kept} keeps results of its rows in Python for its next call: each device keeps those of its own rows, "
            "which differ from what one device keeps. A variable (add_weight) would be shared",
        )
    elif found.left:
        yield (
            f"left {found.left}",
            f"{found.left} keeps results of the rows in Python: in this process, those of one device's rows. What all devices "
            "see goes into a metric, or into the logs of a step",
        )
    if found.apart:
        yield (
            f"apart {found.apart}",
            f"{found.apart} keeps results of the rows in Python, and a loss, a metric or a layer that works on the rows of all "
            "devices reads it: it finds those of one device's rows, so the result is not that of one device. A tensor of one "
            "entry per row, a mean or a sum over rows in an attribute of a layer would be that of all rows",
        )
    if found.writes_rows:
        yield (
            "written rows",
            f"{code}, which writes into the arrays of its batch, in place. With abreast it writes into copies: a source that "
            "gives the same arrays again gives them unchanged",
        )
    if found.reads_values:
        yield (
            f"values {about}",
            f"{code}, which reads values of tensors in Python (`float`, `item`, `if`): what it decides by values of its rows, "
            "each device decides by its own rows",
        )


def _of_numbers(found: Relations, code: str, about: str) -> Iterator[tuple[str, str]]:
    """Topics and texts of the warnings about gradients and numbers that may be no means over rows."""
    if found.no_means or found.refused:
        yield (
            f"own {about}",
            f"{code}, {found.no_means or 'which relates rows to one another'}: each replica computes it from its own rows, "
            "weighted by their number, which is not what one device computes",
        )
    if found.unlike_few:
        yield (
            f"few rows {about}",
            f"{code}, in which {found.unlike_few} computes otherwise from {counted(found.few_rows, 'row')} than from more: where "
            "a device has no more rows of a batch, the result is not that of one device",
        )
    if found.open:
        yield (
            f"open {about}",
            f"{code}, {found.open}: it counts as a mean over rows, because no row shows whether it is a mean or a sum. If it is "
            "a sum, the result is not that of one device",
        )
    if found.of_one_part:
        yield (
            f"of one part {about}",
            f"{code}, {found.of_one_part}: it counts as a sum over rows. If it is a mean over some of the rows, the result is "
            "not that of one device",
        )


def _whose_code(own_step: bool, kind: str) -> str:
    return f"{kind}_step" if own_step else "call"


def _topic(kind: str, model: Any, own_step: bool) -> str:
    """The code of the user's that a warning is about: other kinds of steps may run the same."""
    return f"{kind}_step" if own_step else _whose(kind, model, own_step)


def _whose(kind: str, model: Any, own_step: bool) -> str:
    if own_step:
        return f"has its own {kind}_step"
    return "has its own compute_metrics" if is_users(model, "compute_metrics") else "runs a call of your own"
