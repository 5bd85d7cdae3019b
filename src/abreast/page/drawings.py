"""Figures and tables of numbers as parts of a page, with their style; for the pages of `bench` and `plan`.

Not here: drawing (`figures.py`), and the choice of figures (`bench/plots.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from abreast.page.document import asset
from abreast.page.markup import Markup, tag
from abreast.page.sections import table, wide

_STYLE = """
.drawings { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 18px 28px; }
.drawings figure { padding-top: 6px; }
.drawings svg { width: 100%; max-width: 560px; height: auto; border: 1px solid var(--line); border-radius: 4px; }
.contents { padding-top: 12px; }
a { color: var(--link); }
"""


def style() -> str:
    return asset("figures.css") + _STYLE


def drawings(figures: Iterable[tuple[str, str, Markup]]) -> Markup:
    """Figures with their captions, side by side if there is room. A figure is a name, a caption and a drawing."""
    shown = [tag("figure", drawing, tag("figcaption", words)) for _, words, drawing in figures]
    return tag("div", *shown, class_="drawings")


def numbers(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    return wide(table(caption, heads, rows))
