"""Cases in a JSON file. The command's options fill the missing fields of a case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from abreast.bench import models
from abreast.bench.cases import Request
from abreast.errors import DataError
from abreast.nearest import did_you_mean


def read_requests(path: Path, defaults: Request) -> list[Request]:
    """The cases of a JSON file: a list of objects with the fields of `Request`. `defaults` fills the missing fields."""
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}", "give a JSON file of cases") from error
    except ValueError as error:
        raise DataError(
            f"{path} is not JSON: {error}", 'write a list, as [{"model": "mlp", "devices": [1, 2]}]'
        ) from error
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise DataError(f"{path} is not a list of cases", 'write a list, as [{"model": "mlp", "devices": [1, 2]}]')
    return [_request(f"{path}, case {number}", each, defaults) for number, each in enumerate(found, 1)]


def _request(where: str, given: Mapping[str, Any], defaults: Request) -> Request:
    known = {field.name: getattr(defaults, field.name) for field in fields(Request)}
    for name, value in given.items():
        if name not in known:
            raise DataError(f"{where}: {name!r} is not a field of a case", did_you_mean(name, known))
        if not _KINDS[name][0](value):
            raise DataError(f"{where}: {name} is {value!r}", f"give {_KINDS[name][1]}")
    merged = known | {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if not merged["model"]:
        raise DataError(f"{where} names no model", f"give one of {', '.join(models.OWN)}, or of Keras Applications")
    if "batch" in given and "global_batch" not in given:  # it replaces the command's
        merged["global_batch"] = None
    if "global_batch" in given and "batch" not in given:
        merged["batch"] = None
    return Request(**merged)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _list_of(check: Any) -> Any:
    return lambda value: isinstance(value, list) and bool(value) and all(map(check, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_KINDS: dict[str, tuple[Any, str]] = {
    "model": (_is_text, "a name"),
    "backends": (_list_of(_is_text), "a list of backends"),
    "devices": (_list_of(_is_count), "a list of whole numbers"),
    "batch": (_is_count, "a whole number of rows"),
    "global_batch": (_is_count, "a whole number of rows"),
    "precision": (_list_of(_is_text), "a list of precisions"),
    "input": (_is_text, "a text"),
    "input_shape": (_list_of(_is_count), "a list of whole numbers"),
    "variants": (lambda value: isinstance(value, list) and all(map(_is_text, value)), "a list of texts"),
    "against": (lambda value: isinstance(value, list) and all(map(_is_text, value)), "a list of rivals"),
}
