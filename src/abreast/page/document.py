"""A self-contained HTML file: its style and script are inside, and its security policy forbids loading anything.

Not here: the content of a page.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from abreast.page.markup import Markup, joined, tag


def document(title: str, main: Markup, footer: str, *, style: str = "", script: str | None = None) -> Markup:
    """The page as text. `style` is added to the style that all pages share. Both `style` and `script` must be our own text."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(asset("palette.css") + asset("page.css") + style)),
    )
    scripts = [] if script is None else [tag("script", Markup(script))]
    body = tag("body", main, tag("footer", tag("p", footer)), *scripts)
    return joined(Markup("<!doctype html>\n"), tag("html", head, body, lang="en"), Markup("\n"))


def asset(name: str, package: str | None = __package__) -> str:
    """The content of a text file beside the modules of a package."""
    return (resources.files(package or "") / name).read_text(encoding="utf-8")


def _policy(script: str | None) -> str:
    """A content security policy that loads nothing, and runs no script except ours."""
    digest = "" if script is None else base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"'sha256-{digest}'" if digest else "'none'"
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {scripts}"
