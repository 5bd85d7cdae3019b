"""Hints say how to install from where abreast came from: a command that fails, or installs something else, helps nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.client import ROOT


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, 'pip install "abreast[jax]"'),
        ({"url": "file:///home/me/a%20b", "dir_info": {"editable": True}}, "pip install -e '/home/me/a b[jax]'"),
        ({"url": "file:///srv/abreast", "dir_info": {}}, "pip install '/srv/abreast[jax]'"),
        (
            {
                "url": "https://host/abreast",
                "vcs_info": {"vcs": "git", "commit_id": "1f0e", "requested_revision": "main"},
            },
            "pip install 'abreast[jax] @ git+https://host/abreast@main'",
        ),
        (
            {"url": "https://host/abreast", "vcs_info": {"vcs": "git", "commit_id": "1f0e"}},
            "pip install 'abreast[jax] @ git+https://host/abreast@1f0e'",
        ),
        (
            {"url": "file:///tmp/abreast-0.1.0-py3-none-any.whl", "archive_info": {}},
            "pip install 'abreast[jax] @ file:///tmp/abreast-0.1.0-py3-none-any.whl'",
        ),
    ],
)
def test_a_hint_installs_from_the_origin(tmp_path: Path, origin: object, command: str) -> None:
    package = tmp_path / "abreast-0.1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: abreast\nVersion: 0.1.0\n")
    if origin is not None:
        (package / "direct_url.json").write_text(json.dumps(origin))
    assert shown(str(tmp_path), str(ROOT / "src")) == command


def test_a_clone_on_the_search_path_is_its_own_origin() -> None:
    assert shown(str(ROOT / "src")) == f"pip install '{ROOT}[jax]'"


def shown(*search: str) -> str:
    """The command for JAX that Python prints, with those folders alone on its search path."""
    program = "from abreast.installing import install_command; print(install_command('jax'))"
    command = [sys.executable, "-S", "-c", program]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
