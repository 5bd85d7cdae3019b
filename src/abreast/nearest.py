"""The known names that are nearest to an unknown one, for the hint of an error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST = 3
_LIKE = 0.6
_MOST_LISTED = 20


def nearest(name: str, known: Iterable[str], like: float = _LIKE) -> list[str]:
    """Up to three known names that resemble `name`, ignoring case and punctuation; empty if none does.

    `like` is the share of letters, from 0 to 1, that a name must have in common.
    """
    plain, by_plain = letters_of(name), {letters_of(each): each for each in known}
    begins = [each for each in by_plain if plain and (each.startswith(plain) or plain.startswith(each))]
    found = difflib.get_close_matches(plain, by_plain, _MOST, like)
    return [by_plain[each] for each in dict.fromkeys([*begins, *found])][:_MOST]


def did_you_mean(name: str, known: Iterable[str], listed_by: str = "") -> str:
    """A sentence such as `did you mean resnet50 or resnet101?`. If no known name is near, a list of some or all of them.

    `listed_by` is the command that lists more names than fit on one line.
    """
    names = list(known)
    near = nearest(name, names)
    if near:
        return f"did you mean {' or '.join([', '.join(near[:-1]), near[-1]] if len(near) > 1 else near)}?"
    if len(names) <= _MOST_LISTED:
        return f"known are {', '.join(names)}."
    if listed_by:
        return f"`{listed_by}` lists the {len(names):,} known names."
    return f"known are {', '.join(names[:_MOST_LISTED])} and {len(names) - _MOST_LISTED:,} more."


def letters_of(name: str) -> str:
    """A name in small letters, without spaces and signs."""
    return "".join(letter for letter in name.lower() if letter.isalnum())
