"""Parts of modules and classes: globals that functions read, and attributes of classes, those of installed packages among them.

A worker imports modules itself, so only what the script changed in them is sent, and an original that the script puts back is
"restored". See `python_parts.py`.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from abreast.backend.torch import patches
from abreast.backend.torch.python_parts import Edit, Named, Part, Step
from abreast.backend.torch.python_same import bare, settled

_MISSING = "abreast: no such name"  # a string, because it is sent between processes, which keeps no identity


class ClassAttributes(Named):
    step = "attribute"

    def live(self) -> Any:
        return self.owner.__dict__

    def counts(self, name: Any) -> bool:
        return name not in _OF_A_CLASS

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        edit = _with_original(owner, vars(owner), edit)
        if edit[0] == "put":
            setattr(owner, edit[1], edit[2])
        elif edit[0] == "drop" and edit[1] in vars(owner):
            delattr(owner, edit[1])


class VirtualSubclasses(Part):
    """The classes that are registered with an abstract class."""

    def look(self) -> list[Any]:
        registered: Any = abc._get_dump(self.owner)[0]  # type: ignore[attr-defined]  # as cloudpickle reads them
        return [kind for reference in registered if (kind := reference()) is not None]

    def all_edits(self) -> list[Edit]:
        return [("register", kind) for kind in self.seen]

    def _edits(self, new: Any) -> list[Edit]:
        return [("register", kind) for kind in new if kind not in self.seen]

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        owner.register(edit[1])


class PatchedAttributes(ClassAttributes):
    """The attributes of a package's class that the script replaced."""

    def live(self) -> Any:
        return {name: vars(self.owner).get(name, _MISSING) for name in patches.names(self.owner)}

    def held(self) -> Iterator[tuple[Step, Any]]:
        return ((step, value) for step, value in super().held() if patches.is_of_the_user(value))

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        ClassAttributes.apply(owner, ("drop", edit[1]) if _is_missing(edit) else edit)


_OF_A_CLASS = {
    "__abstractmethods__",
    "__annotations__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__qualname__",
    "__static_attributes__",
    "__weakref__",
    "_abc_impl",
}


class Names(Named):
    """The globals of a module that functions read; `unnamed`: those that pickle does not find in the functions' code."""

    def __init__(self, owner: dict[str, Any]) -> None:
        self._names: tuple[str, ...] = ()
        self.unnamed: set[str] = set()
        super().__init__(owner)

    def add(self, names: Iterable[str]) -> list[tuple[Step, Any]]:
        """Watch these names too; return their values."""
        new = tuple(name for name in names if name not in self.seen)
        self._names += new
        values = settled({name: self.owner.get(name, _MISSING) for name in new})
        self.seen |= values
        return [((self.step, name), bare(value)) for name, value in values.items()]

    def all_edits(self) -> list[Edit]:
        return [edit for edit in super().all_edits() if edit[1] in self.owner]

    def live(self) -> Any:
        get = self.owner.get
        return {name: get(name, _MISSING) for name in self._names}

    @staticmethod
    def apply(owner: Any, edit: Edit) -> None:
        edit = _with_original(owner, owner, edit)
        if _is_missing(edit):
            owner.pop(edit[1], None)
        elif edit[0] == "put":
            owner[edit[1]] = edit[2]


class InstalledNames(Names):
    """The globals of an installed module that the script set; a worker imports the module's own values."""

    def add(self, names: Iterable[str]) -> list[tuple[Step, Any]]:
        return [(step, value) for step, value in super().add(names) if patches.is_of_the_user(value)]

    def all_edits(self) -> list[Edit]:
        known = patches.names(self._module)
        return self._noted(
            [
                edit
                for edit in super().all_edits()
                if edit[1] in known or patches.is_of_the_user(edit[2]) or patches.is_elsewhere(*edit[1:3])
            ]
        )

    def _edits(self, new: Any) -> list[Edit]:
        return self._noted(super()._edits(new))

    def _noted(self, edits: list[Edit]) -> list[Edit]:
        """The edits; what the script puts back later is sent, too."""
        for edit in edits:
            patches.note(self._module, edit[1])
        return edits

    @property
    def _module(self) -> Any:
        return sys.modules[self.owner["__name__"]]

    def held(self) -> Iterator[tuple[Step, Any]]:
        return ((step, value) for step, value in super().held() if patches.is_of_the_user(value))


def _is_missing(edit: Edit) -> bool:
    return edit[0] == "put" and isinstance(edit[2], str) and edit[2] == _MISSING


_ORIGINALS: dict[tuple[int, str], Any] = {}  # in a worker: imported values of modules and classes that edits replaced


def _with_original(owner: Any, held: Any, edit: Edit) -> Edit:
    """The edit; a "restore" becomes the edit that puts the imported value back. Values that other edits replace are kept."""
    key = id(owner), edit[1]
    if edit[0] != "restore":
        _ORIGINALS.setdefault(key, held.get(edit[1]))
        return edit
    return ("put", edit[1], _ORIGINALS[key]) if key in _ORIGINALS else edit


def is_where_defined(value: Any, owner: Any, name: Any) -> bool:
    """Whether `owner` is the module or class where a function or class was defined, and `name` its name there."""
    module = owner.get("__name__") if isinstance(owner, dict) else owner.__module__
    within = "" if isinstance(owner, dict) else f"{owner.__qualname__}."
    return bool(value.__module__ == module and value.__qualname__ == f"{within}{name}")
