"""Plain values as strict JSON, which has neither NaN nor infinity, and whose readers may round large integers.

NaN and infinity become `{"$float": "nan"}`, `"inf"`, `"-inf"`; integers beyond 53 bits become `{"$int": "0x..."}`. A key of a
dict that begins with `$` gets another `$` in front.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from abreast.errors import CheckpointError

_EXACT = 2**53  # smaller integers are exact as a double, the type of every number in many JSON readers
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_DEEPEST = 100


def to_json(value: Any, where: str = "values", depth: int = 0) -> Any:
    """The value for JSON. Raises a `CheckpointError` with the place of any value that is not plain."""
    if depth > _DEEPEST:
        raise CheckpointError(f"cannot save {where[:200]}: it is nested more than {_DEEPEST} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value) if abs(value) < _EXACT else {"$int": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, list | tuple):
        return [to_json(each, f"{where}[{i}]", depth + 1) for i, each in enumerate(value)]
    if isinstance(value, Mapping):
        return {_key(key, where): to_json(each, f"{where}[{key!r}]", depth + 1) for key, each in value.items()}
    hint = "save None, bool, int, float, str, and lists and dicts of them; arrays belong to the tensors"
    raise CheckpointError(f"cannot save {where}: its type is {type(value).__name__}", hint)


def from_json(value: Any) -> Any:
    """The value that `to_json` was given. Raises `ValueError` for an object with `$` that it does not write."""
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if not isinstance(value, dict):
        return value
    special = [key for key in value if key.startswith("$") and not key.startswith("$$")]
    if special:
        return _special(value, special[0])
    return {key.removeprefix("$"): from_json(each) for key, each in value.items()}


def parse(data: bytes) -> Any:
    """Parse strict JSON: no NaN, no key twice, no nesting that is too deep. Raises `ValueError`."""
    try:
        return json.loads(data.decode(), parse_constant=_refuse, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise CheckpointError(f"cannot save {where}: its key {key!r:.100} is no text", "use keys of type str")
    return f"${key}" if key.startswith("$") else str(key)


def _special(value: dict[str, Any], key: str) -> int | float:
    text = value[key]
    if len(value) == 1 and isinstance(text, str):
        if key == "$float" and text in _NOT_FINITE:
            return _NOT_FINITE[text]
        if key == "$int" and hex(number := int(text, 16)) == text:
            return number
    raise ValueError(f"an object with the key {key!r:.100} has no meaning")


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found
