"""Modules that a script loads by the path of their file: a worker would not find them by their names, and loads them likewise."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any

from abreast.backend.torch.users_code import is_users
from abreast.import_hooks import find_after


def files() -> dict[str, str]:
    """The files of these modules, by name."""
    return _files(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _files(num_modules: int) -> dict[str, str]:
    names = [name for name, module in [*sys.modules.items()] if module is not None]
    return {name: file for name in names if (file := _file(name)) is not None and not _is_found(name)}


def can_import(module_name: Any) -> bool:
    """Whether a worker can import a module; false for `__main__`, and for modules without a file."""
    return sys.modules.get(module_name) is not None and (_is_found(module_name) or _file(module_name) is not None)


@functools.cache
def _is_found(module_name: Any) -> bool:
    """Whether the import system finds this imported module by its name."""
    if module_name == "__main__" or not _has_package(module_name):
        return False
    if not is_users(module_name):
        return True
    parent = str(module_name).rpartition(".")[0]
    path = getattr(sys.modules[parent], "__path__", None) if parent else None
    spec = find_after(None, module_name, path, None)
    return spec is not None and spec.origin == _origin(module_name)


def _has_package(module_name: Any) -> bool:
    """Whether a worker can import the package of a module, if it is in one."""
    package = str(module_name).rpartition(".")[0]
    return not package or can_import(package)


def _file(module_name: str) -> str | None:
    """The file of an imported module of the user; None if a worker lacks the package of the module."""
    if module_name == "__main__" or not (is_users(module_name) and _has_package(module_name)):
        return None
    file = _origin(module_name)
    return file if file is not None and os.path.isfile(file) else None


def _origin(module_name: str) -> str | None:
    return getattr(getattr(sys.modules[module_name], "__spec__", None), "origin", None)


_FILES: dict[str, str] = {}  # in a worker


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        file = _FILES.get(name)
        return None if file is None else importlib.util.spec_from_file_location(name, file)


def load_from(files: dict[str, str]) -> None:
    """Let this worker's imports find the caller's modules in these files."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
    _FILES.update(files)
