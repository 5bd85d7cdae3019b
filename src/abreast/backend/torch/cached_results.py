"""The results that a `functools.lru_cache` holds, and their way into the cache of another process."""

from __future__ import annotations

import gc
import types
from typing import Any

Entry = tuple[tuple[Any, ...], dict[str, Any], Any]  # arguments, arguments by name, and the result


def keys(cached: Any) -> list[Any]:
    """The keys of a cache, in the order in which they came.

    An empty list if the function is not Python's, or if the cache tells the types of arguments apart.
    """
    is_known = isinstance(_function(cached), types.FunctionType) and not cached.cache_parameters()["typed"]
    if not is_known or not cached.cache_info().currsize:
        return []
    tables = [each for each in gc.get_referents(cached) if type(each) is dict and each is not vars(cached)]
    return [key for table in tables[:1] for key in [*table]]


def entry(cached: Any, key: Any) -> Entry:
    """The entry of a key."""
    args, named = _call(key)
    return args, named, cached(*args, **named)  # found in the cache, not computed


def _function(cached: Any) -> Any:
    return getattr(cached.__wrapped__, "__func__", cached.__wrapped__)


def _call(key: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a key: a single number or text stands for itself, and arguments by name follow a mark."""
    if not isinstance(key, tuple):
        return (key,), {}
    mark = next((index for index, each in enumerate(key) if type(each) is object), len(key))
    rest = key[mark + 1 :]
    return key[:mark], dict(zip(rest[::2], rest[1::2], strict=True))


def fill(cached: Any, found: list[Entry]) -> None:
    """Put entries into a cache: its function runs, with code that returns the results."""
    function = _function(cached)
    code, named = function.__code__, function.__kwdefaults__
    function.__code__ = _returned.__code__.replace(co_freevars=code.co_freevars)
    try:
        for args, by_name, result in found:
            function.__kwdefaults__ = {"_result": result}
            cached(*args, **by_name)
    finally:
        function.__code__, function.__kwdefaults__ = code, named


def _returned(*args: Any, _result: Any, **named: Any) -> Any:
    return _result
