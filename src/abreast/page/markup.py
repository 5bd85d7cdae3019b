"""HTML and SVG as text. Every string is escaped unless it is a `Markup`, so no text of a user becomes markup."""

from __future__ import annotations

import html
import re

# Control characters and lone surrogates, which HTML and UTF-8 do not allow.
_NOT_SHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_EMPTY = {"line", "link", "meta", "path", "rect"}


class Markup(str):
    """Text that is already markup."""


def escaped(text: str, most: int = 4000) -> Markup:
    """A user's text as markup, cut after `most` characters."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(shortened(_NOT_SHOWN.sub("\N{REPLACEMENT CHARACTER}", text[: most + 1]), most)))


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def tag(kind: str, /, *children: str, **attributes: object) -> Markup:
    """One element. The argument `class_` sets the attribute `class`, `aria_label` sets `aria-label`; None leaves one out."""
    parts = [kind]
    for key, value in attributes.items():
        if value is not None:
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escaped(_text(value))}"')
    start = " ".join(parts)
    if kind in _EMPTY:
        return Markup(f"<{start}/>")
    return Markup(f"<{start}>{joined(*children)}</{kind}>")


def prose(text: str, most: int = 4000) -> Markup:
    """Text as markup, with the parts between backticks as code."""
    pieces = shortened(text, most).split("`")
    if len(pieces) % 2 == 0:  # a backtick without a partner
        return escaped(text, most)
    return joined(*(tag("code", piece) if number % 2 else piece for number, piece in enumerate(pieces)))


def sentence(text: str) -> str:
    """The text as a sentence: with a full stop, and with a capital letter unless it begins with a name such as `uint8`."""
    text = text.strip()
    first = text.partition(" ")[0]
    capital = text[:1].upper() if first.isalpha() and first.islower() else text[:1]
    return capital + text[1:] + ("" if not text or text[-1] in ".!?" else ".")


def joined(*children: str) -> Markup:
    """All pieces, joined."""
    return Markup("".join(map(escaped, children)))


def _text(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
