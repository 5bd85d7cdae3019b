"""What a test does where a framework is missing, or Keras is older. Imports no framework, unlike `pytest.importorskip`."""

from __future__ import annotations

import importlib.util
import os
from importlib import metadata

import pytest
from packaging.version import Version


def skip_unless_installed(name: str) -> None:
    """Skip, or fail where `ABREAST_REQUIRE_BACKENDS` names it."""
    if importlib.util.find_spec(name) is None:
        if name in os.environ.get("ABREAST_REQUIRE_BACKENDS", "").split(","):
            pytest.fail(f"{name} is not installed, and ABREAST_REQUIRE_BACKENDS asks for it")
        pytest.skip(f"{name} is not installed")


def keras_is_older_than(version: str) -> bool:
    return Version(metadata.version("keras")) < Version(version)
