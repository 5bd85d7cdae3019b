"""How to install abreast with more extras: from the folder, repository or index that the installed one came from.

The name `abreast` may stand for nothing, or for something else, in an index that the user did not install it from.
"""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_FOLDER = Path(__file__).parents[2]  # of a clone


def install_command(extra: str) -> str:
    """The command that installs abreast with an extra, as `pip install -e '/home/me/abreast[jax]'`."""
    return f"pip install {_requirement(extra, _origin())}"


def _origin() -> dict[str, Any] | None:
    """What pip wrote down about the origin (PEP 610); None for an index. A clone on the search path is its folder."""
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
