"""The parts of a Python value: their comparison, their changes, and the same changes in another process's copy.

A part examines one side of one value (its attributes, its items, its numbers) and remembers what it saw. Not here: which values
are watched, and the paths to another process's copies (`python_state.py`); the parts of modules and classes
(`python_modules.py`); parts that hold no others by name (`python_leaves.py`).
"""

from __future__ import annotations

import functools
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from abreast import exact
from abreast.backend.torch.hooks import OF_MODULES
from abreast.backend.torch.pickle_objects import travels_with_callback
from abreast.backend.torch.python_same import bare, is_plain, is_same, kinds, settle, settled
from abreast.keras_private.models import KerasSaveable
from abreast.keras_private.optimizers import OF_WEIGHT_DECAY
from abreast.users_functions import slot_values

Step = tuple[str, Any]  # from a value to a value that it holds: see `follow`
Edit = tuple[Any, ...]  # the change that a part's `apply` makes in a copy

_RECREATED = {*OF_WEIGHT_DECAY, "_losses", "_loss_ids"}  # attributes of Keras's objects that each rank recreates

_VARIABLES = (
    "_torch_params"  # an entry of a Keras layer's `_modules`: its variables again, in a new list after each call
)


class Part:
    """One side of `owner`, and its last seen state."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.index: int | None = None  # index among the parts that are compared in one call
        self.seen: Any = self.look()
        self._next: Any = None

    def live(self) -> Any:
        """The present value to compare with `seen`."""
        return self.look()

    def look(self) -> Any:
        """The present state, in a form that later changes of `owner` do not alter."""
        raise NotImplementedError

    def edits(self) -> list[Edit]:
        """The edits that bring a copy from the seen state to the present state."""
        self._next = self.look()
        return self._edits(self._next)

    def all_edits(self) -> list[Edit]:
        """The edits that bring a copy in any state to the seen state."""
        return []

    def exchange(self) -> tuple[list[tuple[Step, Any]], list[tuple[Step, Any]]]:
        """Accept the state that `edits` saw; return the values held before, and those held now."""
        before = [*self.held()]
        self.seen = self._next
        return before, [*self.held()]

    def held(self) -> Iterable[tuple[Step, Any]]:
        """The values in the seen state, each with the step that leads to it."""
        return ()

    def _edits(self, new: Any) -> list[Edit]:
        return [("whole", bare(new))] if not is_same(new, self.seen) else []

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        raise NotImplementedError


class Named(Part):
    """A part that holds values by name or key."""

    step = "item"

    def look(self) -> Any:
        return settled(self.live())

    def counts(self, name: Any) -> bool:
        return True

    def held(self) -> Iterator[tuple[Step, Any]]:
        return (((self.step, name), bare(value)) for name, value in self.seen.items() if self.counts(name))

    def all_edits(self) -> list[Edit]:
        return [("put", name, value) for (_, name), value in Named.held(self)]

    def _edits(self, new: Any) -> list[Edit]:
        put: list[Edit] = [
            ("put", name, bare(value))
            for name, value in new.items()
            if self.counts(name) and not (name in self.seen and is_same(value, self.seen[name]))
        ]
        return put + [("drop", name) for name in self.seen if name not in new and self.counts(name)]


class Items(Named):
    """The items of a dict, in their order."""

    def live(self) -> Any:
        return self.owner

    def counts(self, name: Any) -> bool:
        return not (isinstance(name, str) and name == _VARIABLES)

    def _edits(self, new: Any) -> list[Edit]:
        seen, names = ([name for name in each if self.counts(name)] for each in (self.seen, new))
        there = [*(name for name in seen if name in new), *(name for name in names if name not in self.seen)]
        return super()._edits(new) + ([("order", None, names)] if there != names else [])

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        base: Any = OrderedDict if isinstance(owner, OrderedDict) else dict
        if edit[0] == "put":
            base.__setitem__(owner, edit[1], edit[2])
        elif edit[0] == "order":
            for name in edit[2]:
                base.__setitem__(owner, name, base.pop(owner, name))
        else:
            base.pop(owner, edit[1], None)


class Attributes(Named):
    """The attributes of an object. Attributes that Keras and torch keep for themselves are compared, but not entered."""

    step = "attribute"

    def live(self) -> Any:
        return self.owner.__dict__

    def counts(self, name: Any) -> bool:
        if name == "training":  # a script may set it for a torch module inside a layer
            return not isinstance(self.owner, KerasSaveable)
        if name in _RECREATED:
            return not isinstance(self.owner, KerasSaveable)
        return name not in exact.of_calls(self.owner) and not str(name).startswith("_abreast")

    def held(self) -> Iterator[tuple[Step, Any]]:
        hidden = _hidden() if isinstance(self.owner, (KerasSaveable, torch.nn.Module)) else ()
        return (
            (step, value)
            for step, value in super().held()
            if step[1] not in hidden or (value and step[1] in OF_MODULES)
        )

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        if edit[0] == "put":
            owner.__dict__[edit[1]] = edit[2]
        elif edit[0] == "complete":
            _complete(owner.__dict__, edit[1], edit[2])
        else:
            owner.__dict__.pop(edit[1], None)


def _complete(attributes: dict[str, Any], name: str, value: Any) -> None:
    """Give an object an attribute that its pickle left out. A whole number that it made anew stays: it may be a handle."""
    if name not in attributes or (type(value) is not int and is_plain(value) and is_plain(attributes[name])):
        attributes[name] = value


class PlainAttributes(Attributes):
    """The attributes of a callback that hold data; only the callback itself uses the others."""

    def live(self) -> Any:
        return {name: value for name, value in vars(self.owner).items() if travels_with_callback(value)}


class Slots(Named):
    """The attributes of an object that are not in its `__dict__`."""

    step = "attribute"

    def live(self) -> Any:
        return slot_values(self.owner)

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        if edit[0] == "put":
            object.__setattr__(owner, edit[1], edit[2])
        else:
            object.__delattr__(owner, edit[1])


class Entries(Part):
    """The entries of a list; of a changed list, only the entries from the first difference on are sent."""

    def live(self) -> Any:
        return self.owner

    def look(self) -> Any:
        return [settle(value) for value in self.owner]

    def held(self, start: int = 0) -> Iterator[tuple[Step, Any]]:
        return ((("item", index), bare(self.seen[index])) for index in range(start, len(self.seen)))

    def exchange(self) -> tuple[list[tuple[Step, Any]], list[tuple[Step, Any]]]:
        start, before = self._start, [*self.held(self._start)]
        self.seen = self._next
        return before, [*self.held(start)]

    def _edits(self, new: Any) -> list[Edit]:
        self._start = self._first_difference(new)
        if self._start == len(new) == len(self.seen):
            return []
        return [("from", self._start, [bare(value) for value in new[self._start :]])]

    def _first_difference(self, new: list[Any]) -> int:
        pairs = enumerate(zip(self.seen, new, strict=False))
        return next((index for index, pair in pairs if not is_same(*pair)), min(len(self.seen), len(new)))

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        list.__setitem__(owner, slice(edit[1], None), edit[2])


class Members(Part):
    """The members of a set or a deque. A deque's members are watched too."""

    def live(self) -> Any:
        return self.owner

    def look(self) -> Any:
        return self.owner.copy() if isinstance(self.owner, deque) else set(self.owner)

    def held(self) -> Iterator[tuple[Step, Any]]:
        return ((("item", index), value) for index, value in enumerate(self.seen if self._is_ordered else ()))

    @property
    def _is_ordered(self) -> bool:
        return isinstance(self.owner, deque)

    def _edits(self, new: Any) -> list[Edit]:
        if self._is_ordered:
            same = len(new) == len(self.seen) and all(map(is_same, new, self.seen))
        else:
            same = new == self.seen and kinds(new) == kinds(self.seen)
        if same:
            return []
        return [("whole", list(new))]

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        base: Any = deque if isinstance(owner, deque) else set
        base.clear(owner)
        (base.extend if base is deque else base.update)(owner, edit[1])


@functools.cache
def _hidden() -> frozenset[str]:
    """Attributes of every layer and torch module that add no user's values: other attributes lead to all of them."""
    import keras

    everywhere = {*vars(keras.layers.Layer(name="bare")), *vars(torch.nn.Module())}
    of_models = {"_functional", "_compile_config", "_compiled_trainable_state"}
    of_graphs = {"_operations_by_depth", "_nodes", "_nodes_by_depth", "_tensor_map"}
    return frozenset(everywhere | of_models | of_graphs) - {"_layers", "_modules", "_tracker", "activity_regularizer"}
