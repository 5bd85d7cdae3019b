"""What a release needs: one version everywhere, links that work on the package's page, the same bytes from each build."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import abreast
from hatch_build import _address, absolute
from tests.harness.client import ROOT

ADDRESS = "https://host.org/me/abreast"


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert citation and {project, citation[1]} == {abreast.__version__}
    assert f"## {abreast.__version__} (" in (ROOT / "CHANGELOG.md").read_text()


def test_every_link_of_the_package_page_is_absolute() -> None:
    text = absolute((ROOT / "README.md").read_text(), ADDRESS, "1f0e")
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert f"{ADDRESS}/blob/1f0e/docs/concepts/contract.md" in targets
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


def test_pictures_come_as_they_are() -> None:
    assert absolute("![a plot](docs/a.png)", ADDRESS, "1f0e") == f"![a plot]({ADDRESS}/raw/1f0e/docs/a.png)"


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://host.org/me/abreast.git", ADDRESS),
        ("https://name:secret@host.org/me/abreast", ADDRESS),
        ("git@host.org:me/abreast.git", ADDRESS),
        ("ssh://git@host.org:22/me/abreast.git", ADDRESS),
        ("/srv/git/abreast.git", None),
        ("../abreast", None),
    ],
)
def test_the_address_is_that_of_the_remote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: str, address: str | None
) -> None:
    monkeypatch.delenv("ABREAST_REPOSITORY", raising=False)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", remote], check=True)
    assert _address(tmp_path) == address
