"""Context variables (`contextvars`) and the environment: set to the values of another context, or put back after a block.

Imports no framework.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_ABSENT = object()


def take_over(context: contextvars.Context) -> None:
    """Give each variable the value that it has in `context`; one without a value there gets its default, if it has one."""
    here = contextvars.copy_context()
    for variable, value in context.items():
        if here.get(variable, _ABSENT) is not value:
            variable.set(value)
    for variable in here:
        if variable not in context:
            with suppress(LookupError):
                variable.set(contextvars.Context().run(variable.get))


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
