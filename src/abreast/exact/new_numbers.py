"""Numbers, tensors and texts that code has left in an attribute or a container since an earlier moment. Imports no framework."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import keras
import numpy as np
from keras import ops

from abreast.exact.containers import CONTAINERS, contents_of, values_of
from abreast.users_functions import full_cells, is_users_class, is_users_function, slots_of

_MOST_LEAVES = 1000  # values in a container that are reported
_LONGEST_TEXT = 1 << 16
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:e[+-]?\d+)?(?!\w)")  # no part of an address or a name
_DEPTH = 4  # of containers and objects in one another in which values are looked for
# Objects that hold a model; what they leave is looked for where it is.
_NOT_ENTERED = (keras.Layer, keras.Variable, keras.optimizers.Optimizer, keras.callbacks.Callback, keras.losses.Loss)
_MOST_NUMBERS = 1 << 22  # limit for a value that is reported


class NewNumbers:
    """Calls return the numbers of a value that are new or changed: its own, or those in its container that no container held.

    `old`: the identities of the values that containers held; `changed`: those of arrays that were changed in place.
    """

    def __init__(self, old: set[int], changed: set[int]) -> None:
        self._old, self._changed = old - changed, changed
        self._unchanged: set[int] = set()  # identities of containers in which nothing is new

    def __call__(self, value: Any, before: Any) -> list[Any]:
        """The numbers as arrays; `before`: the value at the earlier moment."""
        return _numbers_of(self._new_values(value, before))

    def _new_values(self, value: Any, before: Any) -> list[Any]:
        if contents_of(value) is None and not isinstance(value, tuple):
            return [] if value is before and id(value) not in self._changed else _first(_leaves(value))
        seen: set[int] = set()
        found = _first(self._new_items(value, seen))
        if not found:
            self._unchanged |= seen
        return found

    def _new_items(self, container: Any, seen: set[int]) -> Iterator[Any]:
        todo = [container]
        while todo:
            container = todo.pop()
            if id(container) in seen or id(container) in self._unchanged:
                continue
            seen.add(id(container))
            for each in values_of(container if isinstance(container, tuple) else contents_of(container)):
                if id(each) not in self._old:
                    yield from _leaves(each)
                elif isinstance(each, (*CONTAINERS, tuple)):
                    todo.append(each)


def _first(leaves: Iterator[Any]) -> list[Any]:
    return list(itertools.islice(leaves, _MOST_LEAVES))


def _leaves(value: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """The values in a container or in an object of the user, which may be in others; any other value itself."""
    kind = type(value)
    if _is_number(value) or isinstance(value, (str, io.StringIO)):
        yield value
        return
    if isinstance(value, _NOT_ENTERED):
        return
    contents = list(value) if isinstance(value, tuple) else contents_of(value)
    if contents is None and is_users_function(value):
        contents = [cell.cell_contents for cell in full_cells(value)]
    elif contents is None and is_users_class(kind):
        contents = [*(vars(value).values() if kind.__dictoffset__ else ()), *slots_of(value).values()]
    if contents is None:
        yield value
    elif depth:
        for each in values_of(contents):
            yield from _leaves(each, depth - 1)


def _numbers_of(values: list[Any]) -> list[Any]:
    """The numbers and tensors among some values, and the numbers in each text."""
    texts = [_text_of(each) if isinstance(each, io.StringIO) else each for each in values]
    arrays = [_numbers_in(each) if isinstance(each, str) else _as_array(each) for each in texts]
    return [each for each in arrays if each is not None]


def _text_of(buffer: io.StringIO) -> str:
    return "" if buffer.closed else io.StringIO.getvalue(buffer)


def _as_array(value: Any) -> Any:
    with suppress(TypeError, ValueError):  # an array of texts
        return np.asarray(ops.convert_to_numpy(value), "float64") if _is_number(value) else None
    return None


def _numbers_in(text: str) -> Any:
    """The numbers in a text, such as a shape; None if there are none, or if it is long."""
    numbers = _NUMBER.findall(text) if len(text) <= _LONGEST_TEXT else []
    return np.array([float(each) for each in numbers]) if numbers else None


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not (isinstance(value, (int, float, np.number, np.ndarray)) or ops.is_tensor(value)):
        return False
    shape = getattr(value, "shape", ())
    return None not in shape and int(np.prod(shape)) <= _MOST_NUMBERS
