"""`skip_unless_installed`: what a test does where a framework is missing. Imports no framework, unlike `pytest.importorskip`."""

from __future__ import annotations

import importlib.util
import os

import pytest


def skip_unless_installed(name: str) -> None:
    """Skip, or fail where `ABREAST_REQUIRE_BACKENDS` names it."""
    if importlib.util.find_spec(name) is None:
        if name in os.environ.get("ABREAST_REQUIRE_BACKENDS", "").split(","):
            pytest.fail(f"{name} is not installed, and ABREAST_REQUIRE_BACKENDS asks for it")
        pytest.skip(f"{name} is not installed")
