"""HTML and SVG as text in which nothing of a user's becomes markup: every string is escaped unless we made it a `Markup`.

Not here: what a page shows. Imports nothing of abreast.
"""

from __future__ import annotations

import html
import re

# Control characters and halves of surrogate pairs: HTML and UTF-8 have no place for them.
_NOT_SHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_EMPTY = {"line", "link", "meta", "path", "rect"}


class Markup(str):
    """Text that is markup already."""


def escaped(text: str, most: int = 4000) -> Markup:
    """A user's text as markup, cut after `most` characters."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(shortened(_NOT_SHOWN.sub("\N{REPLACEMENT CHARACTER}", text[: most + 1]), most)))


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def tag(kind: str, /, *children: str, **attributes: object) -> Markup:
    """One element. `class_` stands for `class`, `aria_label` for `aria-label`; an attribute that is None is left out."""
    parts = [kind]
    for key, value in attributes.items():
        if value is not None:
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escaped(_text(value))}"')
    start = " ".join(parts)
    if kind in _EMPTY:
        return Markup(f"<{start}/>")
    return Markup(f"<{start}>{joined(*children)}</{kind}>")


def prose(text: str, most: int = 4000) -> Markup:
    """Text in which what stands between backticks is code."""
    pieces = shortened(text, most).split("`")
    if len(pieces) % 2 == 0:  # a backtick without a partner
        return escaped(text, most)
    return joined(*(tag("code", piece) if number % 2 else piece for number, piece in enumerate(pieces)))


def sentence(text: str) -> str:
    """The text with a capital letter, unless it begins with a name such as `uint8`, and with a full stop."""
    text = text.strip()
    first = text.partition(" ")[0]
    capital = text[:1].upper() if first.isalpha() and first.islower() else text[:1]
    return capital + text[1:] + ("" if not text or text[-1] in ".!?" else ".")


def joined(*children: str) -> Markup:
    """Several pieces after one another."""
    return Markup("".join(map(escaped, children)))


def _text(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
