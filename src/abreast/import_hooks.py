"""Executes a module by a function of ours when it is imported: the code that our finders in `sys.meta_path` share."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from typing import Any


def found(finder: Any, execute: Callable[[Any, Any], None], fullname: str, path: Any, target: Any) -> Any:
    """The spec that the finders after `finder` return, with a loader that calls `execute(plain_exec_module, module)`.

    A spec may be requested and never executed (`importlib.util.find_spec`), so finding changes nothing else. The loader is a
    copy, because some loaders, such as a zip file's, serve many modules. It keeps its type, which `importlib.resources` reads.
    """
    spec = find_after(finder, fullname, path, target)
    if spec is not None and spec.loader is not None:
        spec.loader = copy.copy(spec.loader)
        spec.loader.exec_module = functools.partial(execute, spec.loader.exec_module)
    return spec


def find_after(finder: Any, fullname: str, path: Any, target: Any) -> Any:
    """The spec from the finders after `finder`, so that none calls itself; with None, from all finders.

    Like Python, skips finders without `find_spec`.
    """
    finders: list[Any] = list(sys.meta_path)
    following = finders[finders.index(finder) + 1 :] if finder in finders else finders
    asked = (each.find_spec(fullname, path, target) for each in following if hasattr(each, "find_spec"))
    return next(filter(None, asked), None)
