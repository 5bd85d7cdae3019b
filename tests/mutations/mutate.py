"""Small changes of files that a program reads: of bytes, and of values in JSON; a seed repeats each."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

_ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e-300, 1e300, 2**31, 2**53, 2**63, 2**64, 10**25, -(10**18), 10**299),
    *("", "x", "a" * 300, "\ud800", "\x1b[31m", "\x00", "../..", "é/ä", "NaN", "1e9", "<script>", "%s{0}", " " * 50),
    *([], {}, [[]], [0, 0], ["a"], {"a": 1}, [1e308, 1e308], {"": None}, [[[[[[]]]]]]),
)


def mutated_bytes(data: bytes, draw: random.Random) -> bytes:
    """A few bytes changed, cut out, repeated, inserted or cut off."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        if not changed:
            break
        at, other = draw.randrange(len(changed)), draw.randrange(len(changed))
        kind = draw.randrange(7)
        if kind <= 2:
            changed[at] = draw.randrange(256)
        elif kind == 3:
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == 4:
            del changed[at : at + draw.choice((1, 4, 64))]
        elif kind == 5:
            changed[at:at] = changed[other : other + draw.choice((1, 4, 64))]
        else:
            del changed[at if draw.random() < 0.2 else len(changed) :]
    return bytes(changed)


def mutated_json(value: Any, draw: random.Random) -> Any:
    """A copy with one to four values replaced, keys removed or renamed, or items repeated."""
    changed = copy.deepcopy(value)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        places = _places(changed)
        if not places:
            return draw.choice(_ODD_VALUES)
        holder, key = draw.choice(places)
        kind = draw.randrange(8)
        if kind <= 4:
            holder[key] = copy.deepcopy(draw.choice(_ODD_VALUES))
        elif kind == 5:
            del holder[key]
        elif kind == 6 and isinstance(holder, dict):
            holder[draw.choice(("x", "a" * 500, "\ud800", ""))] = holder.pop(key)
        elif isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[key : key + 1]) * draw.choice((1, 3, 100)))
        else:
            holder[key] = [holder[key]]
    return changed


def mutated_lines(lines: list[Any], draw: random.Random) -> bytes:
    """Lines of JSON with changed values, or, one time in four, with changed bytes."""
    if draw.random() < 0.25:
        return mutated_bytes("".join(json.dumps(line) + "\n" for line in lines).encode(), draw)
    return "".join(json.dumps(line) + "\n" for line in mutated_json(lines, draw) or []).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place of a value inside `value`, as its holder and its key or index."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            found.append((holder, key))
            waiting.append(holder[key])
    return found
