"""A diagnosis as one HTML file that needs nothing else: `write_page`.

No network: style, script and charts are inside, and the page's own policy forbids the browser to fetch anything. It is
complete without the script, which zooms the timeline and reads out its spans. Not here: what the sections show
(`sections.py`, `section_times.py`). Imports those, and `whole_file`.
"""

from __future__ import annotations

import base64
import hashlib
import os
from importlib import resources

from abreast.measure import section_times, sections, whole_file
from abreast.measure.diagnosis import Diagnosis
from abreast.measure.markup import Markup, joined, shortened, tag


def write_page(diagnosis: Diagnosis, path: str | os.PathLike[str]) -> None:
    """Write the page as a whole or not at all; raises `AbreastError` where that fails."""
    whole_file.write("the page", page(diagnosis), path)


def page(diagnosis: Diagnosis) -> str:
    """The page as text."""
    main = tag(
        "main",
        sections.headline(diagnosis),
        sections.breakdown(diagnosis),
        sections.findings(diagnosis),
        section_times.timeline(diagnosis),
        section_times.devices(diagnosis),
        sections.experiments(diagnosis),
        sections.facts(diagnosis),
    )
    footer = tag("footer", tag("p", "Made by abreast doctor. This file is complete; it loads nothing."))
    script = _asset("page.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{shortened(diagnosis.model, 80)}: where the time goes"),
        tag("style", _asset("page.css")),
    )
    body = tag("body", main, footer, tag("script", script))
    return joined(Markup("<!doctype html>\n"), tag("html", head, body, lang="en"), Markup("\n"))


def _policy(script: str) -> str:
    """Nothing from anywhere, and no script but ours."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _asset(name: str) -> Markup:
    return Markup((resources.files(__package__) / name).read_text(encoding="utf-8"))
