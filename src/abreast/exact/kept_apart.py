"""Python values that the user's code changes in a step, apart for each replica of a process: each finds what one device finds.

Replicas take turns with the same Python objects. A value that one sets for a part of the step is no business of the others. Not
here: which values these are (`python_values.py`), values that replicas set otherwise (`python_changes.py`), tensors (the
backend). Imports no framework.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from abreast.exact.containers import contents_of
from abreast.exact.python_changes import OF_A_BUILD, announce
from abreast.exact.python_values import ABSENT, PLAIN, Held, Place, PythonValues, differing

_OF_SHARED = (
    "the step sets it in Python, and makes variables or objects that the replicas share, with this value: only the first replica "
    "found the former one. Make them before the step, such as in `build`"
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
        self._objects: dict[Place, int] = _objects_in(self._first)
        self._now = self._first
        self._of: dict[int, dict[Place, Held]] = {}
        self._found: dict[str, None] = {}
        self._index: int | None = None
        self.makes = False

    def enter(self, index: int | None) -> None:
        if self._index is not None:
            self._now = self._of[self._index] = self._values.held()
            self.makes = self.makes or self._keeps_new_objects()
        if index is not None:
            present = self._values.held()
            if index == 0:
                self._share_what_an_exchange_changed(present)
            if not self.makes:
                self._values.put_back(self._of.get(index, self._first), present)
            elif index not in self._of:
                self._found |= dict.fromkeys(map(self._values.name, _switched(self._first, self._now)))
        self._index = index

    def _share_what_an_exchange_changed(self, present: dict[Place, Held]) -> None:
        """Take over, for all replicas, what ran between their turns, such as the build of an optimizer."""
        for place in differing(present, self._now):
            for own in (self._first, *self._of.values()):
                own[place] = present.get(place, ABSENT)

    def end(self) -> None:
        """Forget the step's values. Warn, once per model, of shared ones with which the replicas did not begin alike."""
        self._first, self._now, self._of = {}, {}, {}
        announce(self._model, self._found, _OF_SHARED)

    def _keeps_new_objects(self) -> bool:
        return any(
            _is_object(each.value) and self._first.get(place, ABSENT).value is None for place, each in self._now.items()
        )


@contextmanager
def leaving_values(model: Any, has_made: Callable[[], bool]) -> Iterator[None]:
    """Inside, the user's step runs once more than with plain Keras: its Python values are put back, unless it `has_made` weights.

    Then a flag may say that they are made, so flags stay, and a warning names them.
    """
    values = PythonValues(model)
    before = values.held()
    yield
    now = values.held()
    if not has_made():
        values.put_back_unless_built(before, now)
    else:
        announce(model, map(values.name, _switched(before, now, (bool,))), OF_A_BUILD)


def _switched(before: dict[Place, Held], now: dict[Place, Held], kinds: tuple[type, ...] = PLAIN) -> list[Place]:
    """The places with a plain value that was another one before."""
    both = [
        place
        for place in now
        if isinstance(now[place].value, kinds) and isinstance(before.get(place, ABSENT).value, kinds)
    ]
    return [place for place in both if now[place].value != before[place].value]


def _objects_in(held: dict[Place, Held]) -> dict[Place, int]:
    """The identities of the values that may lead to other values."""
    return {
        place: id(each.value) for place, each in held.items() if _is_object(each.value) or each.contents is not None
    }


def _is_object(value: Any) -> bool:
    """Whether a value is neither plain, a function, a container nor a tensor: code may keep it for later steps."""
    is_other = value is None or isinstance(value, _NO_OBJECTS) or contents_of(value) is not None
    return not (is_other or keras.ops.is_tensor(value))
