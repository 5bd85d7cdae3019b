"""A picture of a page for the documentation, drawn by a browser without a window. Needs Pillow."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.harness.browser import Browser, find

_SHADES = 128  # colours of a picture: it keeps its looks, and a third of its bytes


def picture(page: Path, path: Path, width: int) -> None:
    """Write the whole page as PNG; ends the program where there is no browser."""
    from PIL import Image

    program = find()
    if program is None:
        sys.exit("no browser\nhint: install chromium, or name one with ABREAST_BROWSER")
    browser = Browser(program)
    try:
        browser.open(page, width)
        path.parent.mkdir(parents=True, exist_ok=True)
        browser.screenshot(path, whole=True)
    finally:
        browser.close()
    few = Image.open(path).convert("RGB").quantize(_SHADES, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    print(path)
