"""Draws from Python's and NumPy's global generators: redirected to private generators in a dry run, or noted in a step.

Only the thread that asks for it is redirected; a source in another thread continues with the global generators. Imports no
framework.
"""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from abreast.exact.assignments import is_in_optimizer
from abreast.exact.replica import current

_Function = Callable[..., Any]
# By the name of the private generator of a thread: the module, and the kind of its global generator.
_MODULES: dict[str, tuple[Any, type]] = {
    "python": (random, random.Random),
    "numpy": (np.random, np.random.RandomState),
}
_NO_DRAWS = {"seed", "getstate", "setstate", "get_state", "set_state"}
_thread = threading.local()


@contextmanager
def redirected() -> Iterator[None]:
    """Inside, this thread draws from private generators."""

    def redirect(generator: str, name: str, plain: _Function) -> _Function:
        def draw(*args: Any, **kwargs: Any) -> Any:
            private = getattr(_thread, generator, None)
            return (plain if private is None else getattr(private, name))(*args, **kwargs)

        return draw

    rewind_generators()
    try:
        with _replaced(redirect):
            yield
    finally:
        _thread.python = _thread.numpy = None


def rewind_generators() -> None:
    """Reset the private generators of this thread."""
    _thread.python, _thread.numpy = random.Random(0), np.random.RandomState(0)


def drew() -> bool:
    """Whether anything in this thread drew from Python's or NumPy's generators since `rewind_generators`."""
    now, fresh = (each.get_state(legacy=False)["state"] for each in (_thread.numpy, np.random.RandomState(0)))
    is_numpy_moved = now["pos"] != fresh["pos"] or not np.array_equal(now["key"], fresh["key"])
    return is_numpy_moved or bool(_thread.python.getstate() != random.Random(0).getstate())


@contextmanager
def noted() -> Iterator[list[bool]]:
    """A list that gets an entry for each draw of a replica: whether its optimizer draws."""
    found: list[bool] = []

    def note(_: str, name: str, plain: _Function) -> _Function:
        @functools.wraps(plain)
        def draw(*args: Any, **kwargs: Any) -> Any:
            if name not in _NO_DRAWS and current() is not None:
                found.append(is_in_optimizer())
            return plain(*args, **kwargs)

        return draw

    with _replaced(note):
        yield found


@contextmanager
def _replaced(by: Callable[[str, str, _Function], _Function]) -> Iterator[None]:
    """Inside, `by(generator, name, function)` stands in place of each function of the global generators."""
    plain = [
        (generator, module, {name: vars(module)[name] for name in dir(kind) if name[0] != "_" and name in vars(module)})
        for generator, (module, kind) in _MODULES.items()
    ]
    for generator, module, functions in plain:
        vars(module).update({name: by(generator, name, function) for name, function in functions.items()})
    try:
        yield
    finally:
        for _, module, functions in plain:
            vars(module).update(functions)
