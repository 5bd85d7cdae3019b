"""The nearest of the names that are known. Imports nothing of abreast."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Up to three names like this one; the first names that there are, when none is like it."""
    plain, by_plain = _plain(name), {_plain(each): each for each in known}
    begins = [each for each in by_plain if plain and (each.startswith(plain) or plain.startswith(each))]
    found = difflib.get_close_matches(plain, by_plain, n=most, cutoff=0.4)
    return [by_plain[each] for each in dict.fromkeys([*begins, *found])][:most] or list(by_plain.values())[:most]


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
