"""A picture of a page for the documentation, drawn by a browser without a window. Needs Pillow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.harness.browser import Browser, find

_EXACT, _SHADES = 32, 128  # colours of a picture: its most frequent ones, and others for a third of its bytes


def picture(page: Path, path: Path, width: int) -> None:
    """Write the whole page as PNG; ends the program if there is no browser."""
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
    image = Image.open(path).convert("RGB")
    counts: Any = image.getcolors(image.width * image.height)
    exact = [part for _, colour in sorted(counts, reverse=True)[:_EXACT] for part in colour]
    shades = image.quantize(_SHADES, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*exact, *shades])
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path)
