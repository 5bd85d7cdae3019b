"""Call a function right after a module has been imported, now or later, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType


def after_import(name: str, function: Callable[[ModuleType], None]) -> Callable[[], None]:
    """Call `function(module)` once the module is imported; returns a function that ends the wait. A pair waits only once."""
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
        self.end()
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)  # it may be installed later
            return None
        plain = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            plain(module)
            self.function(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
