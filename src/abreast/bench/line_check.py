"""Checks of lines of measurements and of predictions: the first fault, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from abreast.plain_json import measurable, positive

Line = dict[str, Any]
Checks = dict[str, Callable[[Any], bool]]
_MOST_SECONDS = 1e15


def wrong_with(line: Line) -> str | None:
    """The first fault of a line, such as `has no median` or `has 'fast' as its median`; None for a valid line."""
    case = line.get("case")
    if not isinstance(case, dict):
        return "has no case"
    lacking = [name for name in _FIELDS if name not in line] or [name for name in _CASE if name not in case]
    return f"has no {', '.join(lacking)}" if lacking else _wrong(line, _FIELDS, _OPTIONAL, _CASE | _CASE_OPTIONAL)


def wrong_with_prediction(line: Line) -> str | None:
    """The first fault of a line of predictions. It needs `case.devices` and `median`; other fields are checked if present."""
    case = line.get("case")
    if not isinstance(case, dict) or not _is_count(case.get("devices")) or isinstance(case["devices"], float):
        return "needs case.devices, a whole number"
    return _wrong(line, _PREDICTED, _PREDICTED_OPTIONAL, _PREDICTED_CASE)


def _wrong(line: Line, fields: Checks, optional: Checks, of_case: Checks) -> str | None:
    """The first fault among the fields, the optional fields that are not null, and the present fields of the case."""
    checked = [(name, line.get(name), right) for name, right in fields.items()]
    checked += [(name, line[name], right) for name, right in optional.items() if line.get(name) is not None]
    checked += [(f"case.{name}", line["case"][name], of_case[name]) for name in of_case if name in line["case"]]
    return next((f"has {value!r:.80} as its {name}" for name, value, right in checked if not right(value)), None)


def _is_word(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_word, value))


def _is_machine(value: Any) -> bool:
    """Whether a value has the facts that a report shows: `cpu`, `cores`, and `gpus` if there are any."""
    if not isinstance(value, dict) or not (_is_word(value.get("cpu")) and positive(value.get("cores"))):
        return False
    gpus = value.get("gpus")
    others = (fact for name, fact in value.items() if name not in ("cpu", "cores", "gpus"))
    return (gpus is None or (_are_words(gpus) and gpus != [])) and all(
        _is_word(fact) or positive(fact) for fact in others
    )


def _are_versions(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_word, value.values()))


def _is_count(value: Any) -> bool:
    return measurable(value) and value == int(value)


def _are_quartiles(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(measurable, value)) and value[0] <= value[1]


def _is_part(value: Any) -> bool:
    return value == 0 or (positive(value) and value < _MOST_SECONDS)


def _are_parts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_part, value.values()))


_FIELDS: Checks = {
    "unit": _is_word,
    "median": measurable,
    "quartiles": _are_quartiles,
    "machine": _is_machine,
}
_CASE: Checks = {
    "model": _is_word,
    "backend": _is_word,
    "devices": _is_count,
    "rows": measurable,
    "rows_per_device": measurable,
    "scaling": lambda value: value in ("weak", "strong"),
    "precision": _is_word,
    "input": _is_word,
    "simulated": lambda value: isinstance(value, bool),
    "side": _is_word,
}
_CASE_OPTIONAL: Checks = {"input_shape": _is_list}
_OPTIONAL: Checks = {"step_parts_seconds": _are_parts, "versions": _are_versions, "cores_of_others": _is_part}
_PREDICTED: Checks = {"median": measurable}
_PREDICTED_OPTIONAL: Checks = {"interval": _are_quartiles, "step_parts_seconds": _are_parts}
_PREDICTED_CASE: Checks = {"side": _is_word, "rows": measurable}
