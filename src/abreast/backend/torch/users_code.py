"""The test for modules of the user: neither Python nor an installed package provides them."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from abreast.backend.registry import BACKENDS

FRAMEWORKS = {*BACKENDS, "jaxlib", "keras", "numpy"}  # packages whose settings and objects have rules of their own
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
