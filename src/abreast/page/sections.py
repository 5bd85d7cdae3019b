"""The blocks of every page: sections with a heading, tables, and lists of facts. Not here: their content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from abreast.page.markup import Markup, shortened, tag

MOST_ROWS = 100  # in any table
_LONG_WORD = 20


def section(title: str, about: str, *content: str) -> Markup:
    name = anchor(title)
    heading = tag("h2", title, id=name)
    return tag("section", heading, tag("p", about, class_="about") if about else "", *content, aria_labelledby=name)


def anchor(title: str) -> str:
    """The id of the heading of a section, for links to it."""
    return title.lower().replace(" ", "-")


def fact_list(entries: Mapping[str, str]) -> Markup:
    """A list of names with their values, without names that have no value."""
    texts = {shortened(name, 120): shortened(text, 600) for name, text in entries.items() if text}
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", text)) for name, text in texts.items()), class_="facts")


def origin(entries: Mapping[str, str]) -> Markup:
    """The sources of a page's numbers, which a reader can unfold."""
    return tag("details", tag("summary", "Where these numbers come from"), fact_list(entries))


def wide(found: Markup) -> Markup:
    """A table in its own box, which scrolls if the page is too narrow."""
    return tag("div", found, class_="wide", tabindex=0)


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, foot: bool = False, kind: str = ""
) -> Markup:
    """A table whose first column names its rows. With `foot`, the last row is the total of the others.

    If there are more than `MOST_ROWS` rows, only the first are shown, and the caption states it.
    """
    if len(rows) > MOST_ROWS:
        caption += f" (the first {MOST_ROWS} of {len(rows)})"
        rows = [*rows[: MOST_ROWS - foot], *rows[len(rows) - foot :]]
    head = tag("thead", tag("tr", *(tag("th", text, scope="col") for text in heads)))
    lines = [tag("tr", _row_name(row[0]), *(tag("td", text) for text in row[1:])) for row in rows]
    body = lines[:-1] if foot else lines
    last = tag("tfoot", lines[-1]) if foot else ""
    return tag("table", tag("caption", caption), head, tag("tbody", *body), last, class_=kind or None)


def _row_name(text: str) -> Markup:
    """The first cell of a row. Only a name with a very long word may be broken inside a word."""
    is_long = not isinstance(text, Markup) and any(len(word) > _LONG_WORD for word in text.split())
    return tag("th", text, scope="row", class_="long" if is_long else None)
