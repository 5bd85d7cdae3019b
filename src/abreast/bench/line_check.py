"""What is wrong with a line of measurements that is said to be bench's, in words. Imports `plain_json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from abreast.plain_json import positive

Line = dict[str, Any]


def wrong_with(line: Line) -> str | None:
    """`has no median`, `has 'fast' as its median`: the first thing that is wrong; None where nothing is."""
    case = line.get("case")
    if not isinstance(case, dict):
        return "has no case"
    lacking = [name for name in _FIELDS if name not in line] or [name for name in _CASE if name not in case]
    if lacking:
        return f"has no {', '.join(lacking)}"
    checked = [*((name, line.get(name), right) for name, right in _FIELDS.items() if name != "case")]
    checked += [(name, line[name], right) for name, right in _OPTIONAL.items() if line.get(name) is not None]
    checked += [(f"case.{name}", case[name], right) for name, right in _CASE.items()]
    checked += [("case.input_shape", case["input_shape"], _is_list)] if "input_shape" in case else []
    wrong = [(name, value) for name, value, right in checked if not right(value)]
    return f"has {wrong[0][1]!r:.80} as its {wrong[0][0]}" if wrong else None


def _is_word(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_count(value: Any) -> bool:
    return positive(value) and value == int(value)


def _are_quartiles(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(positive, value)) and value[0] <= value[1]


def _are_parts(value: Any) -> bool:
    return isinstance(value, dict) and all(part == 0 or positive(part) for part in value.values())


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "case": _is_object,
    "unit": _is_word,
    "median": positive,
    "quartiles": _are_quartiles,
    "machine": _is_object,
}
_CASE: dict[str, Callable[[Any], bool]] = {
    "model": _is_word,
    "backend": _is_word,
    "devices": _is_count,
    "rows": positive,
    "rows_per_device": positive,
    "scaling": lambda value: value in ("weak", "strong"),
    "precision": _is_word,
    "input": _is_word,
    "simulated": lambda value: isinstance(value, bool),
    "side": _is_word,
}
_OPTIONAL: dict[str, Callable[[Any], bool]] = {"step_parts_seconds": _are_parts}
