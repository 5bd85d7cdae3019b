"""Calls a function right after a module has been imported, now or later, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from abreast.import_hooks import found


def after_import(name: str, function: Callable[[ModuleType], None]) -> Callable[[], None]:
    """Call `function(module)` after the module's import, once for a repeated pair; returns a function that ends the wait."""
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        function(module)
        return lambda: None
    finder = _Finder(name, function)
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
    return finder.end


@dataclass(frozen=True)
class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module as Python would; its loader calls the function after loading."""

    name: str
    function: Callable[[ModuleType], None]

    def end(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        spec: importlib.machinery.ModuleSpec | None = found(self, self._execute, fullname, path, target)
        return spec

    def _execute(self, plain: Any, module: ModuleType) -> None:
        plain(module)
        if self in sys.meta_path:
            self.end()
            self.function(module)
