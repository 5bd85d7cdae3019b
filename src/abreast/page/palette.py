"""Which colour stands for which name: the same for the words that we know, on every page and in every chart.

The colours themselves are in `palette.css`, for light and for dark; there are `NUM_COLOURS`, told apart by colour-blind
readers, and the last is grey. Imports nothing of abreast.
"""

from __future__ import annotations

from collections.abc import Iterable

NUM_COLOURS = 8
GREY = NUM_COLOURS - 1

# The first word that a name holds decides.
_KNOWN = (
    ("comput", 2),
    ("reduce", 3),
    ("callback", 4),
    ("on_", 4),  # on_train_batch_end
    ("wait", 0),
    ("input", 0),
    ("cop", 1),  # copy, copying
    ("put", 1),
    ("read", 5),
    ("cut", 6),
    ("other", GREY),
    ("python", GREY),
    ("rest", GREY),
    ("step", GREY),
)


def colour_classes(names: Iterable[str]) -> dict[str, str]:
    """A CSS class for each name. Names of one meaning share a colour; others take those left, then grey."""
    names = list(dict.fromkeys(names))
    known = {name: colour for name in names if (colour := _meant(name)) is not None}
    free = (colour for colour in range(GREY) if colour not in known.values())
    return {name: f"c{known[name] if name in known else next(free, GREY)}" for name in names}


def _meant(name: str) -> int | None:
    return next((colour for word, colour in _KNOWN if word in name.lower()), None)
