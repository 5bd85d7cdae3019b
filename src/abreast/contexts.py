"""Context variables (`contextvars`) and the environment: set to the values of another context, or put back after a block.

Imports no framework.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_ABSENT = object()


def value_of(variable: contextvars.ContextVar[Any]) -> Any:
    """The value of a variable, or its default; None if it has neither."""
    with suppress(LookupError):
        return variable.get()
    return None


def put_back(variable: contextvars.ContextVar[Any], context: contextvars.Context) -> None:
    """Give a variable the value that it has in `context`; without one there, its default, if it has one."""
    value = context.get(variable, _ABSENT)
    if contextvars.copy_context().get(variable, _ABSENT) is value:
        return
    with suppress(LookupError):
        variable.set(contextvars.Context().run(variable.get) if value is _ABSENT else value)


def take_over(context: contextvars.Context) -> None:
    """`put_back` each variable that has a value in `context`, or here."""
    for variable in {*context, *contextvars.copy_context()}:
        put_back(variable, context)


@contextmanager
def restored() -> Iterator[None]:
    """Inside, variables, also those of the environment, may be set; at the end, they have their values of before."""
    before, environment = contextvars.copy_context(), dict(os.environ)
    try:
        yield
    finally:
        take_over(before)
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        for name, value in environment.items():
            if os.environ.get(name) != value:
                os.environ[name] = value
