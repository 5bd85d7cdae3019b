"""The Python state that a model's steps read, watched in rank 0: the workers must get every change that a callback makes to it.

The state is every value that can be reached from the model: values that its objects hold (losses, metrics and optimizer among
them), and values that their functions read: globals, variables of outer functions, defaults, classes, and code that the script
put into packages. So are the registers that any code may read. It is compared wherever the user's code may have run. Changes that
a step makes happen on every rank. Not here: how the values are found (`python_walk.py`), and the model's variables (`team.py`).
"""

from __future__ import annotations

import gc
import operator
import sys
import types
import weakref
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from abreast import exact
from abreast.backend.torch import imported_classes, patches
from abreast.backend.torch import python_modules as modules
from abreast.backend.torch import python_parts as parts
from abreast.backend.torch.hooks import Hooks
from abreast.backend.torch.pickle_model import UnknownObject, can_travel, dump_changes, dump_model, is_importable
from abreast.backend.torch.python_changes import Change, Path, is_data, restoring, text_of
from abreast.backend.torch.python_leaves import CacheParts, ContextValue, Fixed
from abreast.backend.torch.python_opaque import ANEW, UNSENT
from abreast.backend.torch.python_parts import Edit, Part
from abreast.backend.torch.python_same import kinds
from abreast.backend.torch.python_walk import Walk, Watched
from abreast.backend.torch.users_code import is_installed, is_users
from abreast.errors import ModelError
from abreast.keras_private.models import KerasSaveable


class PythonState:
    """A model's Python state as last seen; `changes` compares it with the present state."""

    def __init__(self, model: Any) -> None:
        self._model = weakref.ref(model)
        self._names: set[str] = set()  # all names in the user's functions
        self._strays: set[tuple[Path, str]] = set()
        self._walk()

    def _walk(self) -> None:
        self._live: list[Any] = []
        self._seen: list[Any] = []
        self._kinds: list[Any] = []
        self._all_kinds: list[Any] = []
        self._pending: list[tuple[Watched, Part]] = []
        model = self._model()
        patches.find()
        self._hooks = Hooks(model)
        self._walked = Walk(model, self._names)
        self._size = len(self._walked.nodes)
        self._list()

    def dump_model(self) -> bytes:
        """The model, with values that a process does not find by importing the user's modules."""
        return dump_model(self._model(), self._beside())

    def classes(self) -> Any:
        """The attributes of the classes that the workers import: see `imported_classes.take_over`."""
        return imported_classes.attributes(node.value for node in self._walked.nodes.values())

    def dump_changes(self) -> bytes | None:
        """The changes since the last `accept`, as bytes; None if there are none. Raises `UnknownObject`, `ModelError`."""
        if (
            any(map(_is_held_here_alone, self._weakly_held))
            or self._hooks.have_changed(self._model())
            or [*map(type, self._owners)] != self._classes
        ):
            raise UnknownObject
        if [*map(vars, self._installed)] != self._as_installed and self._note_patches():
            raise UnknownObject
        changes = self._without_unsent(self.changes())
        if any(change.edit == ANEW for change in changes):
            raise UnknownObject
        try:
            return dump_changes(changes, self._path_of) if changes else None
        except ModelError:
            needed = [change for change in changes if not self._is_stray(change)]
            return dump_changes(needed, self._path_of)

    def let_go(self) -> None:
        """Forget all values at once, before the model is sent again: its layers may refer weakly to some of them."""
        for node in self._walked.nodes.values():
            node.value = None
            node.parts.clear()
        vars(self).clear()

    def _without_unsent(self, changes: list[Change]) -> list[Change]:
        """The changes except those of locks, which are announced."""
        for change in changes:
            if change.edit == UNSENT:
                exact.warn_once(
                    self._model(),
                    "locks",
                    f"{change.name} was taken or released between two steps. Worker processes have locks of their own: a step "
                    "that asks whether this one is held gets other answers there",
                )
        return [change for change in changes if change.edit != UNSENT]

    def _announce_of_a_process(self) -> None:
        """Warn of functions whose result depends on the process that calls them."""
        for name, function in self._walked.of_a_process.items():
            exact.warn_once(self._model(), name, _UNSHARED[name].format(function.__qualname__))

    def _announce_cycles(self) -> None:
        """Warn of weakly held objects that refer to themselves: no count of references shows that only this state has them."""
        for node in self._weakly_held:
            if _is_in_cycle(node.value):
                kind = type(node.value).__name__
                exact.warn_once(
                    self._model(),
                    f"weak {kind}",
                    f"the model refers weakly to a {kind} that refers to itself through its parts. While several processes "
                    f"train the model, this {kind} does not end, even if nothing else refers to it",
                )

    def _is_stray(self, change: Change) -> bool:
        """Whether a change is a new attribute of the script's own (a file, a figure): not sendable, and named by no function."""
        how, name = change.edit[:2]
        place = (change.paths[0], name)
        if change.part != "Attributes" or how != "put" or name in self._names or can_travel(change):
            return False
        if place not in self._strays and self._had(change.paths[0], name):
            return False
        self._strays.add(place)
        return True

    def _had(self, path: Path, name: str) -> bool:
        return any(name in part.seen for node, part in self._pending if node.path() == path)

    def _path_of(self, value: Any) -> Path | None:
        """The path to the workers' copy of a value; None if they have none."""
        node = self._walked.nodes.get(id(value))
        return None if node is None else node.path()

    def changes(self) -> list[Change]:
        """The changes since the last `accept`."""
        if not all(map(operator.is_, self._dicts, map(_DICT, self._owners))):
            self._list_live()
        is_same = _equal(self._seen, self._live) and self._kinds_now() == self._all_kinds
        differing = [] if is_same else self._differing_containers(0, len(self._live))
        self._pending = [*differing, *self._differing_others()]
        return [change for node, part in self._pending for change in _changes(node, part, part.edits())]

    def accept(self) -> None:
        """Record that the workers have the state that `changes` saw."""
        lost = [self._accept(node, part) for node, part in self._pending]
        renewed, self._pending = self._pending, []
        self._walked.explore()
        if any(lost) or len(self._walked.nodes) > 2 * self._size + 1000:
            self._walk()
        elif self._walked.has_grown:
            self._list()
        else:
            for _, part in renewed:
                if part.index is not None:
                    self._seen[part.index] = part.seen
                    self._kinds[part.index] = kinds(part.live())
            self._all_kinds = self._kinds_now() if renewed else self._all_kinds

    def skip(self) -> None:
        """Record that the workers have the present state."""
        self.changes()
        self.accept()

    def _accept(self, node: Watched, part: Part) -> bool:
        """Accept the present state of one part; True if only a new walk can find the paths of the remaining values."""
        before, after = ({(step, id(value)): value for step, value in held} for held in part.exchange())
        for (step, number), value in after.items():
            if (step, number) not in before:
                self._walked.reach(value, node, step)
        gone = [(step, value) for (step, number), value in before.items() if (step, number) not in after]
        lost = [self._walked.leave(value, node, step) for step, value in gone]
        return any(lost)

    def _beside(self) -> list[Change]:
        """Changes that set the globals of modules, attributes of classes, defaults of functions, and what pickle leaves out."""
        pairs = [(node, part) for node in self._walked.nodes.values() for part in node.parts]
        return [
            change
            for node, part in pairs
            for change in _changes(node, part, filter(partial(is_data, part), _first_edits(node, part)))
        ] + self._unnamed()

    def _unnamed(self) -> list[Change]:
        """Changes that set globals of modules that nothing can import, which the model's functions read without naming them."""
        made = [node for node in self._walked.nodes.values() if isinstance(node.root, tuple) and not _is_imported(node)]
        pairs = [(node, part) for node in made for part in node.parts if isinstance(part, modules.Names)]
        return [
            change
            for node, part in pairs
            for change in _changes(node, part, [edit for edit in part.all_edits() if edit[1] in part.unnamed])
        ]

    # Comparing.

    def _list(self) -> None:
        """List the containers that Python compares directly side by side, so that one call compares all of them."""
        pairs = [(node, part) for node in self._walked.nodes.values() for part in node.parts]
        self._containers = [pair for pair in pairs if type(pair[1]) in _CONTAINERS]
        self._others = [pair for pair in pairs if type(pair[1]) not in (*_CONTAINERS, Fixed)]
        self._weakly_held = [node for node in self._walked.nodes.values() if node.is_weakly_held]
        self._announce_cycles()
        self._list_live()
        self._seen = [part.seen for _, part in self._containers]
        self._kinds = [*map(kinds, self._live)]
        self._all_kinds = self._kinds_now()
        for index, (_, part) in enumerate(self._containers):
            part.index = index
        self._walked.has_grown = False
        self._announce_of_a_process()
        kinds_of_values = {type(node.value) for node in self._walked.nodes.values()}
        self._installed = [*{each for kind in kinds_of_values for each in _installed_classes(kind)}]
        self._as_installed = [dict(vars(each)) for each in self._installed]

    def _list_live(self) -> None:
        self._live = [part.live() for _, part in self._containers]
        self._owners = [part.owner for _, part in self._containers if type(part) is parts.Attributes]
        self._dicts = [*map(_DICT, self._owners)]
        self._classes = [*map(type, self._owners)]
        self._keyed = [live for live in self._live if hasattr(live, "values")]
        self._values = [live.values() if hasattr(live, "values") else live for live in self._live]

    def _kinds_now(self) -> list[Any]:
        """`kinds` of all containers, in two calls: this runs at every comparison."""
        return [*chain.from_iterable(self._keyed), *map(type, chain.from_iterable(self._values))]

    def _differing_containers(self, start: int, end: int) -> Iterator[tuple[Watched, Part]]:
        seen, live = self._seen[start:end], self._live[start:end]
        if start == end or (_equal(seen, live) and self._kinds[start:end] == [*map(kinds, live)]):
            return
        if end - start == 1:
            yield self._containers[start]
            return
        middle = (start + end) // 2
        yield from self._differing_containers(start, middle)
        yield from self._differing_containers(middle, end)

    def _differing_others(self) -> list[tuple[Watched, Part]]:
        return [pair for pair in self._others if not _is_as_seen(pair[1])]

    def _note_patches(self) -> bool:
        """Whether the script replaced attributes of packages' classes since they were last seen; notes them as patches."""
        pairs = zip(self._installed, self._as_installed, strict=True)
        found = [(kind, name) for kind, before in pairs for name in patches.replaced(before, vars(kind))]
        for kind, name in found:
            patches.note(kind, name)
        self._as_installed = [dict(vars(kind)) for kind in self._installed]
        return bool(found)


_UNSHARED = {
    "id": "{} calls `id`: objects have other ids in the worker processes, so values that are kept by an id are not found there",
    "__subclasses__": "{} calls `__subclasses__`: worker processes have only those subclasses that the model uses",
}
_MOST_IN_CYCLE = 10_000  # objects
_DICT = operator.attrgetter("__dict__")
_CONTAINERS = (parts.Items, parts.Attributes, modules.ClassAttributes, parts.Entries, parts.Members)


def _is_in_cycle(value: Any) -> bool:
    """Whether an object is reached from itself, not through classes, functions and modules."""
    seen: set[int] = set()
    todo = [value]
    while todo and len(seen) < _MOST_IN_CYCLE:
        for each in gc.get_referents(todo.pop()):
            if each is value:
                return True
            if id(each) not in seen and not isinstance(each, (type, types.ModuleType, types.FunctionType)):
                seen.add(id(each))
                todo.append(each)
    return False


def _is_held_here_alone(node: Watched) -> bool:
    """Whether plain Keras would have lost a value to which the model refers weakly."""
    ours = 2 + len(node.parts) + any(type(part) is parts.Attributes for part in node.parts)  # the node, and this call
    for part in node.parts:  # containers are in `_live` and `_values`, and dicts in `_keyed`
        ours += (2 + hasattr(node.value, "values")) * (type(part) in _CONTAINERS and part.live() is node.value)
    return sys.getrefcount(node.value) <= ours


def _changes(node: Watched, part: Part, edits: Iterable[Edit]) -> list[Change]:
    found = [restoring(part, edit) for edit in edits]
    return [Change(type(part).__name__, node.paths(), edit, text_of(node.path(), edit)) for edit in found]


def _equal(values: Any, others: Any) -> bool:
    try:
        return bool(values == others)
    except Exception:  # `==` of arrays and tensors gives no single truth value, and a user's `==` may raise anything
        return False


def _is_as_seen(part: Part) -> bool:
    live = part.live()
    return _equal(part.seen, live) and (not isinstance(live, dict) or kinds(live) == kinds(part.seen))


def _installed_classes(kind: type) -> Iterator[type]:
    return (each for each in kind.__mro__ if is_installed(each.__module__))


def _first_edits(node: Watched, part: Part) -> list[Edit]:
    """The edits for a process that has unpickled the model: of imported values, and of what pickle leaves out."""
    if _is_imported(node) or isinstance(part, (CacheParts, ContextValue)):
        return part.all_edits()
    if type(part) is parts.Attributes and is_users(type(node.value).__module__) and _pickles_itself(type(node.value)):
        return [("complete", *edit[1:]) for edit in part.all_edits()]
    return []


def _pickles_itself(kind: Any) -> bool:
    names = ["__getstate__"] if issubclass(kind, KerasSaveable) else ["__getstate__", "__reduce__", "__reduce_ex__"]
    return any(patches.is_code_of_the_user(getattr(kind, name)) for name in names)


def _is_imported(node: Watched) -> bool:
    """Whether a process that unpickles the model imports this value and does not get it by value."""
    if isinstance(node.root, tuple):
        return node.root[1] is None
    return isinstance(node.value, (type, types.FunctionType)) and is_importable(node.value)
