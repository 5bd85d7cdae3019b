"""A change of Python state for another process: the path to that process's copy of a value, and the edit of the copy.

Not here: how changes become bytes (`pickle_model.py`).
"""

from __future__ import annotations

import functools
import sys
import types
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from abreast.backend.torch import installed_values
from abreast.backend.torch import python_leaves as leaves
from abreast.backend.torch import python_modules as modules
from abreast.backend.torch import python_parts as parts
from abreast.backend.torch import python_registers as registers
from abreast.backend.torch.modules_by_path import can_import
from abreast.backend.torch.patches import is_code_of_the_user
from abreast.backend.torch.pickle_model import UnknownObject, is_importable
from abreast.backend.torch.python_parts import Edit, Part, Step
from abreast.backend.torch.python_same import bare
from abreast.backend.torch.unpickle_model import load_changes, load_model_and, namespace

Namespace = tuple[str, int | None]  # a module's name, and a number where it cannot be imported by that name
Path = tuple[Any, ...]  # "model" or a namespace, then steps


@dataclass(frozen=True)
class Change:
    """A change that the workers lack: `apply` of the class `part`, with `edit`, on the value at each of `paths`."""

    part: str
    paths: tuple[Path, ...]
    edit: Edit
    name: str  # for errors


def apply_changes(model: Any, data: bytes) -> None:
    """Apply rank 0's changes to a worker's model and to the values that its functions read."""
    _apply(model, load_changes(data, functools.partial(_at, model)))


def load_with_modules(data: bytes) -> Any:
    """The model of `PythonState.dump_model`; applies the changes that came with it to this process's modules."""
    model, beside = load_model_and(data)
    for change in beside:  # one by one: a path may lead through code that an earlier change sets
        _apply(model, [(change.part, change.paths, change.edit)])
    return model


def _apply(model: Any, changes: list[Any]) -> None:
    found = [(part, _owners(model, paths), edit) for part, paths, edit in changes]
    for part, owners, edit in found:
        for owner in owners:
            _PARTS[part].apply(owner, edit)


_PARTS: dict[str, type[Part]] = {
    name: kind
    for module in (parts, modules, leaves, registers, installed_values)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Part)
}


def _owners(model: Any, paths: tuple[Path, ...]) -> list[Any]:
    """The values at the paths that this process has; it lacks those that lead through what `torch.compile` made."""
    found = []
    for path in paths:
        with suppress(KeyError, AttributeError):
            found.append(_at(model, path))
    return found or [_at(model, paths[0])]


def _at(model: Any, path: Path) -> Any:
    value = owner = model if path[0] == "model" else namespace(*path[0])
    for step in path[1:]:
        if step == _COMPILED and step[1] not in value:
            value = owner
        else:
            owner, value = value, follow(value, step)
    return value


_COMPILED = ("item", "_orig_mod")  # from the submodules of a compiled module; another process has the original instead


def follow(value: Any, step: Step) -> Any:
    """The value at the end of one step from `value`."""
    how, name = step
    if how == "item":
        return value[name]
    if how == "attribute":
        own = getattr(value, "__dict__", {})
        return own[name] if name in own else getattr(value, name)
    if how == "cell":
        return value.__closure__[name]
    if how == "contents":
        return value.cell_contents
    if how == "value":
        return value.get()
    if how == "target":
        return value()
    return type(value) if how == "class" else value.__bases__[name]


def restoring(part: Part, edit: Edit) -> Edit:
    """The edit, as a "restore" if the script puts an original back. Raises `UnknownObject` if its module was loaded anew.

    By its name, the other process would find the replacement, and not the original that it imported.
    """
    value = edit[-1]
    is_of_python = isinstance(value, types.BuiltinFunctionType)
    is_code = edit[0] == "put" and (
        is_of_python or (isinstance(value, (types.FunctionType, type)) and is_importable(value))
    )
    if is_code and isinstance(part, parts.Named) and _is_loaded_anew(value, bare(part.seen.get(edit[1]))):
        raise UnknownObject
    if (
        is_code
        and isinstance(part, (modules.Names, modules.ClassAttributes))
        and modules.is_where_defined(value, part.owner, edit[1])
    ):
        return "restore", edit[1]
    return edit


def _is_loaded_anew(value: Any, before: Any) -> bool:
    """Whether a class or a function is another one of the same name and module, or file, as the one before it."""
    if isinstance(value, type) and isinstance(before, type):
        names = ((each.__module__, each.__qualname__) for each in (value, before))
        return value is not before and len({*names}) == 1
    if not (isinstance(value, types.FunctionType) and isinstance(before, types.FunctionType)):
        return False
    new, old = value.__code__, before.__code__
    places = {(code.co_filename, code.co_name) for code in (new, old)}
    return places == {(new.co_filename, value.__name__)} and value.__qualname__ == before.__qualname__ and new != old


def text_of(path: Path, edit: Edit) -> str:
    """The place of an edit, as the user would write it in Python."""
    words = {"attribute": ".{}", "item": "[{!r}]", "class": ".__class__", "base": ".__bases__[{}]"}
    root = path[0] if isinstance(path[0], str) else path[0][0]
    steps = [*path[1:], *([("item" if edit[0] == "from" else "attribute", edit[1])] if edit[0] in _NAMING else [])]
    return root + "".join(words.get(how, "").format(name) for how, name in steps)


_NAMING = ("put", "drop", "from")


def is_data(part: Part, edit: Edit) -> bool:
    """Whether an edit sets what may differ from what an import of the module gives."""
    if isinstance(part, modules.PatchedAttributes):
        return True
    value = edit[-1]
    natural = (types.ModuleType, types.CodeType, type(None), *leaves.FIXED, types.GetSetDescriptorType)
    name = str(edit[1])
    is_special = name.startswith("__") and name.endswith("__") and name not in ("__defaults__", "__kwdefaults__")
    is_named_by_python = is_special and not is_code_of_the_user(value)
    return not is_named_by_python and type(value) is not object and not isinstance(value, natural)


def namespace_of(names: dict[str, Any]) -> Namespace:
    """The name by which another process finds the globals of a module."""
    name = str(names.get("__name__"))
    importable = can_import(name) and vars(sys.modules[name]) is names
    return name, None if importable else id(names)
