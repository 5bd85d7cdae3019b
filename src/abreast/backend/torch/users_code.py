"""The names that the user's own functions read, and the test for modules of the user.

A module is the user's if neither Python nor an installed package provides it.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Iterator
from pathlib import Path

_INSTALLED = {"site-packages", "dist-packages"}


@functools.cache
def is_users(module_name: str | None) -> bool:
    """Whether a module is the user's own; true also for a module without a file, such as a notebook."""
    return not (_is_known(module_name) or is_installed(module_name))


@functools.cache
def is_installed(module_name: str | None) -> bool:
    """Whether an installed package provides a module; false for the modules of Python and abreast."""
    module = sys.modules.get(_top(module_name))
    files = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return not _is_known(module_name) and any(_INSTALLED & set(Path(file).parts) for file in files if file)


@functools.cache
def is_of_python(module_name: str | None) -> bool:
    """Whether Python itself provides a module."""
    top = _top(module_name)
    return top in sys.stdlib_module_names or top in sys.builtin_module_names


def _is_known(module_name: str | None) -> bool:
    return _top(module_name) == "abreast" or is_of_python(module_name)


def _top(module_name: str | None) -> str:
    return str(module_name).partition(".")[0]


@functools.cache
def globals_read(code: types.CodeType) -> tuple[str, ...]:
    """The globals that a function's code names, including functions inside it."""
    own = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return tuple(sorted(own.union(*map(globals_read, _inner(code)))))


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    return (each for each in code.co_consts if isinstance(each, types.CodeType))
