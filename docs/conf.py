"""The documentation site: `make docs` makes `build/site/` of these pages. On GitHub the same pages are read as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "abreast"
author = "the authors of abreast"
html_title = "abreast"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["README.md"]  # the index for those who read in the repository; index.md is the site's
html_theme = "furo"
myst_heading_anchors = 4
nb_execution_mode = "off"  # tests/test_notebooks.py runs them; the outputs are in the files
autodoc_typehints = "none"  # the signature shows them
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # Keras's, of the methods that it calls
default_role = "code"  # the text between backticks in docstrings
napoleon_use_ivar, napoleon_attr_annotations = True, False  # attributes are a list without types
python_maximum_signature_line_length = 100

_README = Path(__file__).resolve().parents[1] / "README.md"
# Links to files of the repository that are no pages: the site keeps their words.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)*(?:(?:src|tests|examples|benchmarks)/[^)\s]*|[A-Z]+\.md[^)\s]*)\)")


def setup(app: Sphinx) -> None:
    app.connect("source-read", _as_page_of_the_site)


def _as_page_of_the_site(app: Sphinx, page: str, source: list[str]) -> None:
    """The README is the first page."""
    readme = _README.read_text().replace("](docs/", "](") if page == "index" else ""
    source[0] = _OUTSIDE.sub(r"\1", (readme + "\n" + source[0]).replace("](../../README.md", "](../index.md"))
