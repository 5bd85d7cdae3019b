"""The report folder: one page, and each figure as its own file, all made from lines.

Not here: the choice of figures (`plots.py`), and their drawing and place in a page (`page/`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from abreast import whole_file
from abreast.bench import plots, table
from abreast.bench.noise import HINT
from abreast.bench.series import Comparison
from abreast.errors import AbreastError, DataError
from abreast.page.document import asset, document
from abreast.page.drawings import drawings, numbers, style
from abreast.page.figures import WIDTH
from abreast.page.markup import Markup, joined, sentence, tag
from abreast.page.sections import anchor, origin, section
from abreast.units import byte_count

PAGE = "report.html"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_BROWSER_SECONDS = 60
_PNG_SCALE = 2


def write_report(found: Sequence[Comparison], folder: Path, *, png: bool = False) -> list[Path]:
    """Write the page and the figures; return the files. Raises `AbreastError`, and `DataError` without measurements."""
    if not found:
        raise DataError("there are no measurements to report", "measure first: abreast bench mlp")
    browser = drawing_browser() if png else None
    drawn = {
        f"{number}-{each.name}-{name}": drawing
        for number, each in enumerate(found, 1)
        for name, _, drawing in plots.figures(each)
    }
    texts = {f"{name}.svg": alone(drawing) for name, drawing in drawn.items()}
    texts |= {PAGE: page(found), "table.txt": table.report(found) + "\n"}
    _make(folder)
    for name, text in texts.items():
        whole_file.write("the report", text, folder / name)
    files = [folder / name for name in texts]
    if browser is not None:
        files += [_png(browser, folder / f"{name}.svg") for name in drawn]
    return files


def page(found: Sequence[Comparison]) -> Markup:
    """The page as HTML."""
    header = tag(
        "header", tag("p", "abreast bench", class_="made-by"), tag("h1", "How training scales"), _contents(found)
    )
    main = tag("main", header, *(_section(number, each) for number, each in enumerate(found, 1)))
    footer = "Made by abreast bench --report. This file is complete; it loads nothing."
    return document("Scaling, measured by abreast", main, footer, style=style())


def alone(drawing: Markup) -> str:
    """The text of a figure's own file, with its colours."""
    colours = tag("style", Markup(asset("palette.css") + asset("figures.css")))
    return f"{drawing.replace('>', '>' + colours, 1)}\n"


def _contents(found: Sequence[Comparison]) -> Markup:
    names = [tag("li", tag("a", each.title, href=f"#{anchor(each.title)}")) for each in found]
    return tag("ul", *names, class_="contents") if len(names) > 1 else joined()


def _section(number: int, comparison: Comparison) -> Markup:
    rows = numbers(f"Measurements of {comparison.title}", table.HEADS, table.rows(comparison))
    drawn = drawings(plots.figures(comparison))
    return section(comparison.title, comparison.devices, _noisy(comparison), drawn, rows, _origin(comparison))


def _noisy(comparison: Comparison) -> Markup:
    """A warning with the measurements that are too noisy, and the advice; nothing if all are steady."""
    if not comparison.noisy:
        return joined()
    heading = tag("p", tag("strong", "Too noisy to be compared, and left out of speed-up and efficiency:"))
    entries = [tag("li", f"{name}: {reason}") for name, reason in comparison.noisy.items()]
    return tag("div", heading, tag("ul", *entries), tag("p", sentence(HINT), class_="advice"), class_="verdict bad")


def _origin(comparison: Comparison) -> Markup:
    """The sources of the numbers."""
    lines = [point.line for series in comparison.series for point in series.points if point.line is not None]
    measured = [line for line in lines if "machine" in line]
    entries: dict[str, str] = {}
    for name in ("command", "commit", "date", "warm_up", "source"):
        entries[name.replace("_", " ")] = ", ".join(dict.fromkeys(str(line[name]) for line in measured if name in line))
    entries |= _machine(comparison.machine)
    versions = {
        json.dumps(line["versions"], sort_keys=True): line["versions"] for line in measured if line.get("versions")
    }
    for number, found in enumerate(versions.values(), 1):
        name = "versions" if len(versions) == 1 else f"versions {number}"
        entries[name] = ", ".join(f"{package} {version}" for package, version in found.items())
    return origin(entries)


def _machine(facts: Mapping[str, Any]) -> dict[str, str]:
    """The facts of a machine in words. A missing fact, such as GPUs, is null."""
    shown = {name: value for name, value in facts.items() if value is not None}
    return {name.removesuffix("_bytes").replace("_", " "): _fact(name, value) for name, value in shown.items()}


def _fact(name: str, value: Any) -> str:
    if isinstance(value, list):  # GPUs, most of them of one model
        return ", ".join(f"{number:,} {each}" if number > 1 else each for each, number in Counter(value).items())
    if isinstance(value, str):
        return value
    return byte_count(value) if name.endswith("_bytes") else f"{value:,}"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "give a folder that you may write to, or a new one"
        raise AbreastError(f"cannot make the folder {folder}: {error.strerror or error}", hint) from error


def drawing_browser() -> str:
    """The name of a browser that can draw an SVG without a window. Raises `AbreastError` if none is installed."""
    named = os.environ.get("ABREAST_BROWSER")
    found = next(filter(None, map(shutil.which, [named] if named else _BROWSERS)), None)
    if found is None:
        hint = "install chromium, name one in ABREAST_BROWSER, or leave out --png: SVG files are always written"
        raise AbreastError(f"no browser can draw PNG files: found none of {', '.join(_BROWSERS)}", hint)
    return found


def _png(browser: str, drawing: Path) -> Path:
    """The PNG file of a figure, drawn by a headless browser."""
    picture = drawing.with_suffix(".png")
    text = drawing.read_text(encoding="utf-8")
    height = text.partition('viewBox="0 0 ')[2].partition('"')[0].split()[-1]
    with tempfile.TemporaryDirectory(prefix="abreast-browser-") as home:
        command = [browser, "--headless", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={home}"]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to run as root with a sandbox
        command += [f"--window-size={WIDTH},{height}", f"--force-device-scale-factor={_PNG_SCALE}"]
        command += [f"--screenshot={picture.resolve()}", drawing.resolve().as_uri()]
        try:
            subprocess.run(command, capture_output=True, timeout=_BROWSER_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise AbreastError(f"{browser} could not draw {drawing}: {error}", "the SVG file is there") from error
    return picture
