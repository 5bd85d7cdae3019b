"""Reads the files in which the system describes its devices, such as those under `/sys` and `/proc`."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str:
    """The text of a file, stripped; empty if the file cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
