"""A stranger who pastes what the README and getting started show makes no wrong turn. `first_hour.py` is that stranger."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import first_hour
from tests.harness.client import ROOT


def run(backend: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, str(ROOT / "tests/first_hour.py"), "--backend", backend, *arguments]
    everything = {**os.environ, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(command, env=everything, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.in_turn
@pytest.mark.timeout(600)
def test_the_commands_of_the_first_hour_work(backend: str) -> None:
    assert "no wrong turn" in run(backend, "--installed")


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_fresh_environment_with_one_extra_reaches_the_end(backend: str, tmp_path: Path) -> None:
    constraint = tmp_path / "builds.txt"
    constraint.write_text("torch==2.13.0\n")  # the build without CUDA, as in the Makefile
    assert "no wrong turn" in run(backend, PIP_CONSTRAINT=str(constraint))


def test_every_page_of_the_first_hour_has_commands_and_they_are_those_of_the_backend() -> None:
    for page in first_hour.PAGES:
        found = list(first_hour.steps(ROOT / page, "torch"))
        assert any(step.python for step in found) and any(step.text == "pip install '.[torch]'" for step in found)
        assert not any("venv" in step.text or "--index-url" in step.text for step in found)
        assert not any("jax" in step.text or "cuda" in step.text for step in found if step.installs)


@pytest.mark.parametrize("wrong", ["false", "echo 'error: no such file'", "python -c 'import no_such_module'"])
def test_a_wrong_turn_is_noticed(tmp_path: Path, wrong: str) -> None:
    stranger = first_hour.Stranger(tmp_path, tmp_path, Path(sys.executable).parent)
    with pytest.raises(first_hour.Wrong, match=r"README.md:7: exit code"):
        stranger.take(first_hour.Step("README.md:7", wrong))
