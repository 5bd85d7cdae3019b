"""Tables for a terminal: columns that line up, two spaces apart."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    """The rows as lines. `numbers` aligns every column except the first on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(_cells(row, widths, numbers)).rstrip() for row in rows)


def _cells(row: Sequence[str], widths: Sequence[int], numbers: bool) -> list[str]:
    return [
        text.rjust(width) if numbers and column else text.ljust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
