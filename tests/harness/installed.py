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
    """False for the nightly build, which is another package."""
    try:
        return Version(metadata.version("keras")) < Version(version)
    except metadata.PackageNotFoundError:
        return False


def skip_if_older_keras_reads_ahead(backend: str) -> None:
    if backend == "jax" and keras_is_older_than("3.15"):
        pytest.skip("on JAX, Keras up to 3.14 reads one batch ahead of the step, also on CPUs")


def skip_without_grain() -> None:
    if not importlib.util.find_spec("grain"):
        pytest.skip("without Grain")
    if keras_is_older_than("3.14"):
        pytest.skip("Keras 3.13 imports a private module that Grain no longer has")
