"""The arrays of a batch: a structure of any form, in which None takes the place of a missing array.

Almost every batch is a plain tuple of arrays. It is met at every step, so it does not go through the slower walk of a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import tree


def is_plain(data: Any) -> bool:
    """Whether a batch is a plain tuple of arrays and None."""
    return type(data) is tuple and all(
        leaf is None or (hasattr(leaf, "shape") and not isinstance(leaf, tuple)) for leaf in data
    )


def map_arrays(function: Callable[[Any], Any], data: Any) -> Any:
    """The structure with `function(array)` in place of each array."""
    if is_plain(data):
        return tuple([None if leaf is None else function(leaf) for leaf in data])
    return tree.map_structure(lambda leaf: None if leaf is None else function(leaf), data)


def arrays_of(data: Any) -> list[Any]:
    """The arrays, without None, in the order of the structure."""
    return [leaf for leaf in (data if is_plain(data) else tree.flatten(data)) if leaf is not None]
