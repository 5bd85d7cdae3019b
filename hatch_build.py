"""What the package's page shows depends on where the repository lives: links of the README, and addresses.

The repository's address is `ABREAST_REPOSITORY`, or that of the remote `origin`. Without either, links stay as they are.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PAGES = {
    "Homepage": "",
    "Documentation": "/tree/{commit}/docs",
    "Changelog": "/blob/{commit}/CHANGELOG.md",
    "Issues": "/issues",
}


class CustomMetadataHook(MetadataHookInterface):
    """Fills in `readme` and `urls`, which `pyproject.toml` names as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        text = (root / "README.md").read_text()
        address, commit = _address(root), _git(root, "rev-parse", "HEAD")
        metadata["urls"] = {}
        if address and commit:
            metadata["urls"] = {name: address + page.format(commit=commit) for name, page in _PAGES.items()}
            text = absolute(text, address, commit)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text: str, address: str, commit: str) -> str:
    """Markdown whose links and pictures lead into the repository at that commit, instead of into the folder."""

    def link(match: re.Match[str]) -> str:
        view = "raw" if match["picture"] else "blob"
        return f"{match['picture']}[{match['words']}]({address}/{view}/{commit}/{match['path']})"

    return re.sub(r"(?P<picture>!?)\[(?P<words>[^\]]*)\]\((?!\w+:|#)(?P<path>[^)\s]+)\)", link, text)


def _address(root: Path) -> str | None:
    """The repository's page, without credentials; None for a clone of a folder."""
    remote = os.environ.get("ABREAST_REPOSITORY") or _git(root, "remote", "get-url", "origin") or ""
    found = re.fullmatch(
        r"(?:https?://|ssh://)?(?:[^@/]*@)?([\w-]+(?:\.[\w-]+)+)[:/](?:\d+/)?(.+?)(?:\.git)?/?", remote
    )
    return f"https://{found[1]}/{found[2]}" if found else None


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
