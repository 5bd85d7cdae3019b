"""Python values that the user's code changes in a step, apart for each replica of a process: each finds what one device finds.

Replicas take turns with the same Python objects. A value that one sets for a part of the step is no business of the others. Not
here: which values these are (`python_values.py`), values that replicas set otherwise (`python_changes.py`), tensors (the
backend). Imports no framework.
"""

from __future__ import annotations

import contextvars
import functools
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from abreast import contexts
from abreast.exact.containers import contents_of
from abreast.exact.python_changes import OF_A_BUILD, announce
from abreast.exact.python_values import ABSENT, PLAIN, Glance, Held, Place, PythonValues, differing, empty_caches
from abreast.replacing import put_on
from abreast.users_functions import package_of

_OF_SHARED = (
    "the step sets it in Python, and makes variables or objects that the replicas share, with this value: only the first replica "
    "found the former one. Make them before the step, such as in `build`"
)
_TOO_LARGE = (
    "the step changes it in Python, and it is too large to be kept apart for each replica: every replica changes it. A variable "
    "(add_weight) would be that of one device"
)
_OF_TENSORS = (
    "the step keeps a tensor there, and each replica keeps that of its own rows: the next step finds that of the last one. "
    "A variable (add_weight) would be that of one device"
)
_NO_OBJECTS = (*PLAIN, complex, bytes, tuple, np.generic, np.ndarray, types.FunctionType)


class KeptApart:
    """`enter(index)` puts a replica's values in their places before each of its turns; `enter(None)` ends its turn.

    All replicas begin a step with the same values. `makes`: whether the step has made variables, which replicas share. They then
    share all values, because code asks these whether it has made the variables.
    """

    def __init__(self, model: Any, former: KeptApart | None = None) -> None:
        """`former`: that of the last step, which knows where the values are; looking for them takes long in a large model."""
        self._model = model
        self._values: PythonValues = PythonValues(model) if former is None else former._values
        self._first = self._values.held()
        if former is not None and _objects_in(self._first) != former._objects:
            self._values = PythonValues(model)
            self._first = self._values.held()
        self._objects: dict[Place, list[int]] = _objects_in(self._first)
        self._now = self._begun = self._first
        self._of: dict[int, dict[Place, Held]] = {}
        self._found: dict[str, None] = {}
        self._too_large: dict[str, None] = {}
        self._index: int | None = None
        self.makes = False

    def enter(self, index: int | None) -> None:
        if self._index is not None:
            self._now = self._of[self._index] = self._values.held()
            self.makes = self.makes or self._keeps_new_objects()
            self._too_large |= dict.fromkeys(map(self._values.name, _changed_large(self._begun, self._now)))
        if index is not None:
            present = self._begun = self._values.held()
            if index == 0:
                self._share_what_an_exchange_changed(present)
            if not self.makes:
                self._values.put_back(self._of.get(index, self._first), present)
            elif index not in self._of:
                self._found |= dict.fromkeys(map(self._values.name, _shared(self._first, self._now)))
        self._index = index

    def _share_what_an_exchange_changed(self, present: dict[Place, Held]) -> None:
        """Take over, for all replicas, what ran between their turns, such as the build of an optimizer."""
        for place in differing(present, self._now):
            for own in (self._first, *self._of.values()):
                own[place] = present.get(place, ABSENT)

    def end(self, keeps_tensors: bool) -> None:
        """Forget the step's values. Warn, once per model, of shared ones with which the replicas did not begin alike.

        `keeps_tensors`: warn, too, of tensors that a next step may read.
        """
        if keeps_tensors:
            changed = [each for each in differing(self._first, self._now) if _has_tensors(self._now.get(each, ABSENT))]
            announce(self._model, map(self._values.name, changed), _OF_TENSORS)
        self._first, self._now, self._begun, self._of = {}, {}, {}, {}
        announce(self._model, self._found, _OF_SHARED)
        announce(self._model, self._too_large, _TOO_LARGE)

    def _keeps_new_objects(self) -> bool:
        """Whether an object of Keras's or TensorFlow's is new, such as a layer that is not built or a table."""
        return any(
            _is_object(each.value)
            and self._first.get(place, ABSENT).value is None
            and package_of(type(each.value)) in ("keras", "tensorflow")
            for place, each in self._now.items()
        )


@contextmanager
def leaving_values(model: Any, has_made: Callable[[], bool]) -> Iterator[None]:
    """Inside, the user's step runs once more than with plain Keras: its Python values are put back, unless it `has_made` weights.

    Then a flag may say that they are made, so flags stay, and a warning names them. Under `run_eagerly`, numbers, texts, and
    containers of these are as before the last `call`: plain Keras makes the ones before it, which build the model.
    """
    values = PythonValues(model)
    before = begun = values.held()
    caches = empty_caches(model)
    context = context_before_call = contextvars.copy_context()
    call = model.call

    @functools.wraps(call)
    def noting(*args: Any, **kwargs: Any) -> Any:
        nonlocal begun, context_before_call
        begun, context_before_call = values.held(), contextvars.copy_context()
        return call(*args, **kwargs)

    undo = put_on(model, call=noting) if model.run_eagerly else None
    try:
        yield
    finally:
        if undo is not None:
            undo()
    now = values.held()
    staying, flags = _of_lazy_builds(before, now)
    if not has_made():
        for function in caches:  # their results have come with changes that are put back
            function.cache_clear()
        announce(model, map(values.name, flags), OF_A_BUILD)
        values.put_back_unless_built(before, now, staying)
        contexts.take_over(context)
    else:
        flags = [*dict.fromkeys((*flags, *_switched(before, now, (bool,))))]
        announce(model, map(values.name, flags), OF_A_BUILD)
        if not model.run_eagerly:  # the number of traces is not plain Keras's anyway
            return
        plain = {*_switched(begun, now), *filter(lambda place: _has_plain_items(begun, now, place), now)}
        plain -= {*flags, *staying}
        values.put_back(*({place: each for place, each in of.items() if place in plain} for of in (begun, now)))
        contexts.take_over(context_before_call)


def _has_plain_items(before: dict[Place, Held], now: dict[Place, Held], place: Place) -> bool:
    """Whether a container is the same one as before, and holds plain values alone."""
    held = (before.get(place, ABSENT), now[place])
    return held[0].value is held[1].value and all(_is_plain(each) for each in held)


def _is_plain(held: Held, is_item: bool = False) -> bool:
    if isinstance(held.contents, dict | list):
        return all(_is_plain(each, True) for each in held.items)
    return isinstance(held.contents, np.ndarray) or (is_item and isinstance(held.value, _NO_OBJECTS))


def _switched(before: dict[Place, Held], now: dict[Place, Held], kinds: tuple[type, ...] = PLAIN) -> list[Place]:
    """The places with a plain value that was another one before."""
    both = [
        place
        for place in now
        if isinstance(now[place].value, kinds) and isinstance(before.get(place, ABSENT).value, kinds)
    ]
    return [place for place in both if now[place].value != before[place].value]


def _shared(before: dict[Place, Held], now: dict[Place, Held]) -> list[Place]:
    """The places with another plain value, or other contents of a container, which the next replica finds."""
    contents = [each for each in differing(before, now) if each in before and before[each].contents is not None]
    return [*_switched(before, now), *contents]


def _changed_large(before: dict[Place, Held], now: dict[Place, Held]) -> list[Place]:
    """The places with a container or an array that a turn changed and that is too large to be put back."""
    large = {place: each for place, each in now.items() if _is_large(each) and place in before}
    changed = differing({place: before[place] for place in large}, large)
    return [place for place in changed if before[place].value is now[place].value]


def _has_tensors(held: Held) -> bool:
    return any(each.contents is None and keras.ops.is_tensor(each.value) for each in _with_items(held))


def _of_lazy_builds(before: dict[Place, Held], now: dict[Place, Held]) -> tuple[set[Place], list[Place]]:
    """The places that metrics and losses filled when they made variables, and those of them that may mean another thing.

    Such an object remembers what it made by an attribute that was None or missing, or by a flag or a word.
    """
    changed = differing(before, now)
    made = [each for each in changed if _built_in(now.get(each, ABSENT)) - _built_in(before.get(each, ABSENT))]
    owners = {place[0] for place in made}
    of_owners = [place for place in changed if place[0] in owners]
    filled = {place for place in of_owners if before.get(place, ABSENT).value is None}
    values = {place: now.get(place, ABSENT).value for place in of_owners}
    flags = [
        place
        for place, value in values.items()
        if isinstance(value, bool) or (isinstance(value, str) and place not in filled)
    ]
    return {*made, *filled, *flags}, flags


def _built_in(held: Held) -> set[int]:
    """The identities of variables, and of objects of Keras that have some, in a value."""
    kinds = (keras.Variable, keras.Layer, keras.metrics.Metric)
    return {id(each.value) for each in _with_items(held) if isinstance(each.value, kinds)}


def _is_large(held: Held) -> bool:
    return any(isinstance(each.contents, Glance) for each in _with_items(held))


def _objects_in(held_at: dict[Place, Held]) -> dict[Place, list[int]]:
    """The identities of the values that may lead to other values, by place."""
    found = {
        place: [id(each.value) for each in _with_items(held) if _is_object(each.value) or each.contents is not None]
        for place, held in held_at.items()
    }
    return {place: each for place, each in found.items() if each}


def _with_items(held: Held) -> Iterator[Held]:
    """A value, and those of the items of a container, and of containers in it."""
    yield held
    for each in held.items:
        yield from _with_items(each)


def _is_object(value: Any) -> bool:
    """Whether a value is neither plain, a function, a container nor a tensor: code may keep it for later steps."""
    is_other = value is None or isinstance(value, _NO_OBJECTS) or contents_of(value) is not None
    return not (is_other or keras.ops.is_tensor(value))
