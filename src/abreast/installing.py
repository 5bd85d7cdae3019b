"""The command that installs abreast with more extras, from the folder, repository or index of the present installation.

In an index from which the user did not install it, the name `abreast` may be missing, or belong to another package.
"""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_FOLDER = Path(__file__).parents[2]  # the folder of a clone


def install_command(extra: str) -> str:
    """The command that installs abreast with an extra, such as `pip install -e '/home/me/abreast[jax]'`."""
    return f"pip install {_requirement(extra, _origin())}"


def _origin() -> dict[str, Any] | None:
    """The origin that pip recorded (PEP 610); None for an index. For a clone on the search path, its folder."""
    try:
        text = metadata.distribution("abreast").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return {"url": _FOLDER.as_uri(), "dir_info": {}}
    return json.loads(text) if text else None


def _requirement(extra: str, origin: dict[str, Any] | None) -> str:
    if origin is None:
        return f'"abreast[{extra}]"'
    url = str(origin["url"])
    if "dir_info" in origin:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return editable + shlex.quote(f"{unquote(urlsplit(url).path)}[{extra}]")
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        url = f"{vcs['vcs']}+{url}@{vcs.get('requested_revision', vcs['commit_id'])}"
    return shlex.quote(f"abreast[{extra}] @ {url}")
