"""Objects of ours in a notebook: a few escaped lines and tables of HTML, without script, style sheet or picture."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

_MOST_ROWS = 20
_MOST_LETTERS = 500


def shown(
    title: str, facts: Mapping[str, object], heads: Sequence[str] = (), rows: Sequence[Sequence[object]] = ()
) -> str:
    """A title, a table of facts by name, and a table with a row of heads. Long texts and tables are cut."""
    pairs = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in facts.items())
    parts = [f"<b>{_text(title)}</b>", f"<table>{pairs}</table>" if pairs else ""]
    if rows:
        cells = ["".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows[:_MOST_ROWS]]
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        parts.append(f"<table><tr>{''.join(f'<th>{_text(head)}</th>' for head in heads)}</tr>{body}</table>")
    if (more := len(rows) - _MOST_ROWS) > 0:
        parts.append(f"<p>and {more:,} more</p>")
    return f"<div>{''.join(parts)}</div>"


def _text(value: object) -> str:
    """The value's text, escaped. A lone half of a surrogate pair, which UTF-8 cannot represent, becomes a question mark."""
    text = str(value).encode("utf-8", "replace").decode()
    return html.escape(text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…")
