"""A temporary value for an attribute of a class, a module or an object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute of a class, a module or a model another value until the end of the block."""
    inherited = name not in vars(owner)
    plain = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, plain)


def put_on(owner: Any, **values: Any) -> Callable[[], None]:
    """Set attributes on an object without the `__setattr__` of its class; returns a function that puts the old ones back.

    The object may have methods of its own under these names, which a user has set on it.
    """
    own = vars(owner)
    before = {name: own[name] for name in values if name in own}
    own.update(values)

    def put_back() -> None:
        for name in values:
            own.pop(name, None)
        own.update(before)

    return put_back
