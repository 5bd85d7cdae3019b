"""Facts about a machine in JSON, each checked as it is read. Not here: their meaning (`machine.py`, `measured_machine.py`)."""

from __future__ import annotations

from typing import Any

from abreast import plain_json
from abreast.errors import DataError

_SLOWEST, _FASTEST = 1e4, 1e14  # bytes per second of any link or memory
_RATE = "bytes_per_second, as 12e9 for 12 GB/s (12 GB/s = 96 Gb/s)"
_KINDS = {list: "list", dict: "object", bool: "true or false"}


class JsonFacts:
    """One JSON object. `where` names it in errors, and `needed` is their hint when a fact is missing."""

    def __init__(self, content: Any, where: str, needed: str) -> None:
        if not isinstance(content, dict):
            raise DataError(f"{where} is {content!r:.80}, not an object", 'a JSON object, as `{"name": "mine"}`')
        self.content: dict[str, Any] = content
        self.where = where
        self._needed = needed

    def __getitem__(self, name: str) -> Any:
        if name not in self.content:
            raise DataError(f"{self.where}: {name} is missing", self._needed)
        return self.content[name]

    def inner(self, name: str) -> JsonFacts:
        return JsonFacts(self[name], f"{self.where}: {name}", self._needed)

    def objects(self, name: str) -> list[JsonFacts]:
        """A list of objects, each called by its own name in errors; empty if it is missing."""
        found = self.content.get(name, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise DataError(f"{self.where}: {name} is not a list of objects", self._needed)
        return [JsonFacts(each, f"{self.where}: {each.get('name', name)}", self._needed) for each in found]

    def text(self, name: str) -> str:
        value = self[name]
        if not isinstance(value, str) or not value:
            raise self.error(name, f"{name} is a word")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        found = self.optional(name, list, [])
        if not all(isinstance(each, str) for each in found):
            raise self.error(name, f"{name} is a JSON list of words")
        return tuple(found)

    def optional(self, name: str, kind: type, default: Any) -> Any:
        value = self.content.get(name, default)
        if not isinstance(value, kind):
            raise self.error(name, f"{name} is a JSON {_KINDS[kind]}")
        return value

    def count(self, name: str) -> int:
        value = self[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.error(name, f"{name} is a whole number, 1 or more")
        return value

    def number(self, name: str) -> float:
        if not plain_json.positive(self[name]):
            raise self.error(name, f"{name} is a number above zero, as 16e9")
        return float(self[name])

    def known(self, name: str) -> float | None:
        """A number above zero, or None if it is missing."""
        return None if self.content.get(name) is None else self.number(name)

    def rate(self, name: str) -> float:
        """A rate in bytes per second. Raises an error for a rate of that name in another unit."""
        begin = name.removesuffix("bytes_per_second")
        unlike = [key for key in self.content if key.startswith(begin) and key != name and "_per_second" in key]
        if unlike:
            raise DataError(f"{self.where}: {unlike[0]} is in another unit", f"rates are in {_RATE}")
        value = self[name]
        if not plain_json.positive(value):
            raise self.error(name, f"it is above zero, in {_RATE}")
        if not _SLOWEST <= value <= _FASTEST:
            raise DataError(f"{self.where}: {name} is {value:g}, beyond any link or memory", f"rates are in {_RATE}")
        return float(value)

    def error(self, name: str, hint: str) -> DataError:
        return DataError(f"{self.where}: {name} is {self.content.get(name)!r}", hint)
