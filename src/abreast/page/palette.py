"""The colour of each name. A known name has the same colour on every page and in every chart.

`palette.css` defines the `NUM_COLOURS` colours, for light and for dark pages. Colour-blind readers can distinguish them; the
last one is grey.
"""

from __future__ import annotations

from collections.abc import Iterable

NUM_COLOURS = 8
GREY = NUM_COLOURS - 1

# The first word that occurs in a name decides its colour.
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
    ("update", 5),
    ("straggler", 6),
    ("other", GREY),
    ("python", GREY),
    ("rest", GREY),
    ("step", GREY),
)


def colour_classes(names: Iterable[str]) -> dict[str, str]:
    """A CSS class for each name. Names of one meaning share a colour; unknown names get the free colours, then grey."""
    names = list(dict.fromkeys(names))
    known = {name: colour for name in names if (colour := _known_colour(name)) is not None}
    free = (colour for colour in range(GREY) if colour not in known.values())
    return {name: f"c{known[name] if name in known else next(free, GREY)}" for name in names}


def _known_colour(name: str) -> int | None:
    return next((colour for word, colour in _KNOWN if word in name.lower()), None)
