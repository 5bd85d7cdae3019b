"""Python values that a step changes otherwise than on one device: results of rows, counts of rows, iterators.

Each replica of a process begins a step with the same values (`kept_apart.py`): after a turn, a replica should have the values
that the first replica had after the same turn. In a process with one replica, the code should not have run before the step:
abreast builds a model by a call, and plain Keras within its first step. Not here: which values these are (`python_values.py`).
Imports no framework.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from abreast.exact.members import members
from abreast.exact.own_step import overrides_step
from abreast.exact.python_values import Marks, Place, PythonValues, unlike
from abreast.exact.users_code import first_of, names_of_users_code
from abreast.exact.warn_once import warn_once
from abreast.stderr import tell_for_all

_told: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # the names of code, by model
_traced_twice: WeakSet[Any] = WeakSet()  # models whose next step plain Keras traces twice
# Names of the values that a model's build changed.
_of_build: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()
_OF_EACH_STEP = (
    "the step changes it in Python, and each replica changes it otherwise, such as by its own rows: the value of the "
    "last one stays. A variable (add_weight) would be that of one device"
)
_OF_A_TRACE = (
    "the step changes it in Python. Such code runs only while the step is traced, once for each replica, and each changes it "
    "otherwise: the value of the last one stays. A variable (add_weight) would be that of one device"
)
_OF_TRACES = (
    "the step changes it in Python. Such code runs only while a step is traced, and plain Keras traces this one twice, because "
    "the optimizer or a metric makes its variables. A variable (add_weight) would be equal"
)
OF_A_BUILD = (
    "the step changes it in Python, and abreast runs this code once more than plain Keras, to build the model. A variable "
    "(add_weight) would be that of plain Keras"
)


class ReplicaChanges:
    """Compares the values that replicas find. `enter(index)` begins a turn of a replica, `enter(None)` ends it."""

    def __init__(self, model: Any, rows: Sequence[int], is_eager: bool) -> None:
        """`rows`: the numbers of rows of the replicas, where Python knows them: code that keeps its number counts nothing."""
        self._model, self._rows, self._is_eager = model, rows, is_eager
        self._values = PythonValues(model)
        self._turns: Counter[int] = Counter()
        self._of_first: list[Marks] = []  # after each turn of the first replica
        self._found: dict[str, None] = {}
        self._index: int | None = None
        self._before: Marks | None = None  # the step

    def enter(self, index: int | None) -> None:
        if self._index is not None:
            self._compare(self._index, self._values.marks())
        elif self._before is None:
            self._before = self._values.marks()
        self._index = index

    def announce(self) -> None:
        """Warn, once per model, of the values that replicas do not find alike."""
        announce(self._model, self._found, _OF_EACH_STEP if self._is_eager else _OF_A_TRACE)
        traces_twice = self._model in _traced_twice
        _traced_twice.discard(self._model)
        if traces_twice and self._before is not None and self._of_first:
            counted = _counted(self._before, self._of_first[-1])
            names = [self._values.name(place) for place in counted if not self._are_rows(0, self._of_first[-1][place])]
            announce(self._model, set(names) - self._found.keys(), _OF_TRACES)

    def _compare(self, index: int, marks: Marks) -> None:
        turn = self._turns[index]
        self._turns[index] += 1
        if index == 0:
            self._of_first.append(marks)
        elif turn < len(self._of_first):
            places = unlike(marks, self._of_first[turn])
            self._found |= {self._values.name(each): None for each in places if not self._are_rows(index, marks[each])}

    def _are_rows(self, index: int, mark: Any) -> bool:
        return bool(self._rows) and mark == repr(self._rows[index])


class BuildChanges:
    """Finds the values that the step of the only replica of a process changes, and that the build changed, too."""

    def __init__(self, model: Any) -> None:
        self._model, self._values = model, PythonValues(model)
        self._before: Marks | None = None
        self._found: dict[str, None] = {}

    def enter(self, index: int | None) -> None:
        marks = self._values.marks()
        if self._before is not None:
            names = map(self._values.name, _numbers_unlike(marks, self._before))
            self._found |= {name: None for name in names if name in _of_build.get(self._model, ())}
        self._before = None if index is None else marks

    def announce(self) -> None:
        """Warn, once per model, of the values that the code changes once more than with plain Keras."""
        announce(self._model, self._found, OF_A_BUILD)


@contextmanager
def noting_build(model: Any) -> Iterator[None]:
    """Inside, a model is built: note the values that this changes."""
    values = PythonValues(model)
    before = values.marks()
    yield
    _of_build[model] = frozenset(map(values.name, _numbers_unlike(values.marks(), before)))


def note_second_trace(model: Any) -> None:
    """Note that plain Keras would trace a model's next step twice, since that makes the variables of the optimizer or metrics.

    What a build has changed for good counts as a trace.
    """
    if not was_changed_by_build(model):
        _traced_twice.add(model)


def _numbers_unlike(marks: Marks, before: Marks) -> list[Place]:
    """The places with a value of a known kind that is not as before: a number of rows may be unknown."""
    return [place for place in unlike(marks, before) if marks[place] is not None]


def _counted(before: Marks, after: Marks) -> list[Place]:
    """The places with other numbers, alone or in a container, or with a container of another length."""
    return [place for place in unlike(after, before) if [] != _numbers(before.get(place)) != _numbers(after[place])]


def _numbers(mark: Any) -> list[Any]:
    """The numbers, lengths and arrays of which this is a mark; no texts."""
    if isinstance(mark, tuple | list):
        return [number for each in mark for number in _numbers(each)]
    if isinstance(mark, str):
        with suppress(ValueError):
            return [float(mark)]
    return [mark] if isinstance(mark, int | bytes) else []


def tell_of_effects(model: Any, kind: str, num_devices: int) -> None:
    """Print, once for each code of the user's, that every device runs it: not all that it does can be as on one device."""
    told = _told.setdefault(model, set())
    names = names_of_users_code(model, members(model), kind if overrides_step(model, kind) else None)
    if new := [name for name in names if name not in told]:
        tell_for_all(
            f"each of {num_devices} devices runs the Python code of {first_of(new)}, and so does the row check: prints, files "
            "and other effects outside of the model come more often than on one device"
        )
    told.update(new)


def was_changed_by_build(model: Any) -> bool:
    return bool(_of_build.get(model))


def announce(model: Any, names: Iterable[str], text: str) -> None:
    """Warn, once per model, of the Python values of these names."""
    if joined := ", ".join(sorted(names)):
        warn_once(model, f"python {joined}", f"{joined}: {text}")
