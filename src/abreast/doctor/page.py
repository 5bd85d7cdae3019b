"""A diagnosis as one self-contained HTML file: `write_page`.

The page is complete without its script, which only zooms the timeline and shows a span's numbers. Not here: the sections
(`sections.py`, `section_times.py`), and the frame that all pages share (`page/document.py`).
"""

from __future__ import annotations

import os

from abreast import whole_file
from abreast.doctor import section_times, sections
from abreast.doctor.diagnosis import Diagnosis
from abreast.page.document import asset, document
from abreast.page.markup import shortened, tag


def write_page(diagnosis: Diagnosis, path: str | os.PathLike[str]) -> None:
    """Write the whole page or nothing; raises `AbreastError` if it cannot be written."""
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
    title = f"{shortened(diagnosis.model, 80)}: where the time goes"
    footer = "Made by abreast doctor. This file is complete; it loads nothing."
    return document(title, main, footer, script=asset("page.js", __package__))
