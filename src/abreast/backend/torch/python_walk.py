"""The walk from a model to every Python value that its steps can read, and the path by which each was found.

Values are reached through the contents of a value, and through the names in a function's code: globals, attributes of modules and
classes. Not here: the comparison of the values (`python_state.py`), and the contents of a value (`python_parts.py`).
"""

from __future__ import annotations

import builtins
import sys
import types
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import keras

from abreast.backend.torch import patches
from abreast.backend.torch.installed_values import InstalledValues
from abreast.backend.torch.messages import numbered_variables, set_by_scripts
from abreast.backend.torch.modules_by_path import can_import
from abreast.backend.torch.python_changes import Path, namespace_of
from abreast.backend.torch.python_kinds import is_watched, parts_of
from abreast.backend.torch.python_modules import InstalledNames, Names
from abreast.backend.torch.python_parts import Part, Step
from abreast.backend.torch.python_registers import REGISTERS
from abreast.backend.torch.python_same import PLAIN, is_plain
from abreast.backend.torch.users_code import is_installed, is_users
from abreast.users_functions import full_cells, globals_read, names_read, texts_in

# Through these, code reads globals without naming them.
_BY_TEXT = {"globals", "vars", "eval", "exec", "modules", "__main__"}
_IMPORTING = {"import_module", "__import__"}
_BY_NAME = {"getattr", *_IMPORTING}  # with these, code reads names of a module that may be in variables
_IF_THERE = {"getattr", "hasattr", "AttributeError"}  # with these, code reads names that a module may lack
# Modules of which only plain values are searched.
_PROCESS_MODULES = {"builtins", "io", "logging", "os", "sys", "threading"}
_IMMUTABLE = 1 << 8  # Python's flag for immutable classes, written in C


@dataclass(eq=False)
class Watched:
    """A watched value, and the places where it was found; a root has no edges."""

    value: Any
    root: Any = None
    parts: list[Part] = field(default_factory=list)
    edges: dict[tuple[int, Step], Watched] = field(default_factory=dict)

    @property
    def is_weakly_held(self) -> bool:
        """Whether only weak references lead to the value from outside of it."""
        if all(how != "target" for _, (how, _) in self.edges):
            return False
        todo, seen = [self], {id(self)}
        while todo:
            for (_, (how, _)), parent in todo.pop().edges.items():
                if how != "target" and parent.root is not None:
                    return False
                if how != "target" and id(parent) not in seen:
                    seen.add(id(parent))
                    todo.append(parent)
        return True

    def path(self) -> Path:
        if self.root is not None:
            return (self.root,)
        (_, step), parent = next(iter(self.edges.items()))
        return (*parent.path(), step)

    def paths(self) -> tuple[Path, ...]:
        """All paths to a value that is held in several places: models that are sent one by one may have separate copies of it."""
        if self.root is not None:
            return ((self.root,),)
        return tuple((*parent.path(), step) for (_, step), parent in [*self.edges.items()][:_MOST_PATHS])


_MOST_PATHS = 4


class Walk:
    """The watched values of a model, by identity. `names` collects all names in the user's functions.

    `new_code`: functions and classes that were found, watched or not, until somebody takes them. `of_a_process`: functions that
    read what each process has for itself, by the name under which they read it.
    """

    def __init__(self, model: Any, names: set[str]) -> None:
        self.nodes: dict[int, Watched] = {}
        self.names = names
        self.new_code: list[Any] = []
        self.of_a_process: dict[str, types.FunctionType] = {}
        self.has_grown = False
        self._numbered = {id(variable) for variable in numbered_variables(model)}
        self._found: deque[Watched] = deque()
        root = self.nodes[id(model)] = Watched(model, root="model")
        self._open(root)
        self.explore()
        self._reach_patches()
        registers = self._node_of(vars(warnings))
        registers.parts += [kind(registers.value) for kind in REGISTERS]
        registers.parts.append(InstalledValues(self))

    def _reach_patches(self) -> None:
        """Watch the code and values that the script put into packages."""
        for owner, names in patches.known().items():
            if isinstance(owner, types.ModuleType):
                self._watch_names(vars(owner), names)
            elif owner.__module__ in sys.modules:
                self._watch_names(vars(sys.modules[owner.__module__]), [owner.__qualname__])
        self.explore()

    def explore(self) -> None:
        while self._found:
            node = self._found.popleft()
            for step, value in links_of(node):
                self.reach(value, node, step)
            self._look_into(node)

    def reach(self, value: Any, parent: Watched, step: Step) -> None:
        """Watch a value that `parent` holds."""
        node = self.nodes.get(id(value))
        if node is None:
            if not is_watched(value):
                self._note_code(value)
                return
            node = self.nodes[id(value)] = Watched(value)
            self._note_code(value)
            self._open(node)
        if node.root is None:
            node.edges[id(parent), step] = parent

    def _note_code(self, value: Any) -> None:
        if isinstance(value, (type, types.FunctionType)):
            self.new_code.append(value)

    def _open(self, node: Watched) -> None:
        is_numbered = id(node.value) in self._numbered
        node.parts = [] if is_numbered else [kind(node.value) for kind in parts_of(node.value)]
        self._found.append(node)
        self.has_grown = True

    def _look_into(self, node: Watched) -> None:
        """Watch the values that a value's own code reads."""
        value = node.value
        if isinstance(value, types.FunctionType):
            self._read(value)
        elif isinstance(value, types.ModuleType):
            names = [name for name, each in vars(value).items() if not name.startswith("__") and is_plain(each)]
            self._watch_names(vars(value), names)

    def _read(self, function: types.FunctionType) -> None:
        """Watch the globals that a function names, and the attributes of modules that it names."""
        if not is_users(function.__globals__.get("__name__")):
            return
        namespace = function.__globals__
        names = globals_read(function.__code__)
        attributes = names_read(function.__code__)
        if not _BY_TEXT.isdisjoint(attributes):
            # Those in texts need not be there yet: a script may set them later.
            unnamed = {
                *texts_in(function.__code__),
                *_names_in_texts(function.__code__),
                *(attributes & namespace.keys()),
            }
            self._watch_unnamed(namespace, unnamed - {*names})
        self._watch_names(namespace, names)
        self._watch_names(vars(builtins), [name for name in names if name not in namespace])
        self.names |= attributes
        if function.__name__ == "__call__" or not function.__name__.startswith("__"):
            own = {"id"} & set(names) - namespace.keys() | {"__subclasses__"} & attributes
            self.of_a_process |= dict.fromkeys(own, function)
        modules = [namespace.get(name) for name in names] + [_module(name) for name in attributes]
        modules += [cell.cell_contents for cell in full_cells(function)]
        if not _IMPORTING.isdisjoint(attributes):
            modules += [sys.modules.get(text) for text in _texts(function.__code__)]
        visited: set[int] = set()
        for module in modules:
            self._watch_attributes(module, attributes, visited)
            if isinstance(module, types.ModuleType) and not can_import(module.__name__):
                self._watch_unnamed(vars(module), attributes & vars(module).keys())
            if isinstance(module, types.ModuleType) and not _IF_THERE.isdisjoint(attributes):
                self._watch_names(vars(module), (attributes | texts_in(function.__code__)) - vars(module).keys())
            if (
                isinstance(module, types.ModuleType)
                and not _BY_NAME.isdisjoint(attributes)
                and is_users(module.__name__)
            ):
                self._watch_names(vars(module), [name for name in vars(module) if not name.startswith("__")])

    def _watch_attributes(self, holder: Any, names: frozenset[str], visited: set[int]) -> None:
        """Watch a module's attributes that a function names, and likewise in the modules and classes named there."""
        if id(holder) in visited or not isinstance(holder, (types.ModuleType, type)):
            return
        visited.add(id(holder))
        if isinstance(holder, type):
            self._watch_class(holder, names)
        elif is_users(holder.__name__) or sys.modules.get(holder.__name__) is holder:  # else like `torch.ops.aten`
            present = [name for name in names if name in vars(holder) and _is_searched(holder, vars(holder)[name])]
            self._watch_names(vars(holder), present)
            for name in present:
                self._watch_attributes(vars(holder)[name], names, visited)

    def _watch_class(self, kind: type, names: frozenset[str]) -> None:
        """Watch the attributes of a package's class that a function names and that hold data."""
        if is_installed(kind.__module__) and not kind.__flags__ & _IMMUTABLE:
            held = [name for name in names if name in vars(kind) and not name.startswith("__")]
            for name in held:
                if is_plain(vars(kind)[name]):
                    patches.note(kind, name)

    def _node_of(self, namespace: dict[str, Any]) -> Watched:
        node = self.nodes.get(id(namespace))
        if node is None:
            node = self.nodes[id(namespace)] = Watched(namespace, root=namespace_of(namespace))
            self.has_grown = True
        return node

    def _watch_unnamed(self, namespace: dict[str, Any], names: Iterable[str]) -> None:
        """Watch globals that code reads without naming them: pickle sends no such globals with a function."""
        self._watch_names(namespace, names).unnamed.update(names)

    def _watch_names(self, namespace: dict[str, Any], names: Iterable[str]) -> Names:
        node = self._node_of(namespace)
        if not any(isinstance(part, Names) for part in node.parts):
            is_own = is_users(namespace.get("__name__"))
            node.parts.append(Names(namespace) if is_own else InstalledNames(namespace))
        part = next(part for part in node.parts if isinstance(part, Names))
        for step, value in part.add(names):
            self.reach(value, node, step)
        return part

    def leave(self, value: Any, parent: Watched, step: Step) -> bool:
        """Forget that `parent` holds a value; True if only a new walk can find the paths of the remaining values."""
        node = self.nodes.get(id(value))
        if node is None or node.root is not None:
            return False
        was_first = next(iter(node.edges), None) == (id(parent), step)
        node.edges.pop((id(parent), step), None)
        if node.edges:
            return was_first
        del self.nodes[id(value)]
        self.has_grown = True
        lost = [self.leave(each, node, step) for step, each in links_of(node)]
        return any(lost)


def links_of(node: Watched) -> Iterator[tuple[Step, Any]]:
    """The values that a value holds, and its class; for a class, also its bases."""
    for part in node.parts:
        yield from part.held()
    if isinstance(node.value, keras.Variable):
        yield from ((("attribute", name), value) for name, value in set_by_scripts(node.value))
    elif isinstance(node.value, type):
        yield from ((("base", index), base) for index, base in enumerate(node.value.__bases__))
    if isinstance(node.value, type) or (node.parts and node.root is None) or node.root == "model":
        yield ("class", None), type(node.value)


def _is_searched(module: types.ModuleType, value: Any) -> bool:
    """Whether a value of a module may be the same in each process."""
    top = module.__name__.partition(".")[0]
    return top != "abreast" and (top not in _PROCESS_MODULES or isinstance(value, PLAIN))


def _texts(code: types.CodeType) -> Iterator[str]:
    """The texts in a function's code, and in the functions inside it."""
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _texts(each)
        elif isinstance(each, str):
            yield each


def _names_in_texts(code: types.CodeType) -> Iterator[str]:
    """The names in the texts of a function that are Python, as `eval` takes them."""
    for each in _texts(code):
        if not each.isidentifier():
            with suppress(SyntaxError, ValueError):
                yield from names_read(compile(each, "<text>", "exec"))


def _module(name: str) -> types.ModuleType | None:
    """The user's module of that name, if it has been imported."""
    return sys.modules.get(name) if is_users(name) and name != "__main__" else None
