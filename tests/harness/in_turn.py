"""Tests that take long on every backend: each commit runs each of them on one backend, `make test-full` on all.

The commit's hash and the place of the test's file among theirs choose the backend. So every commit tests all backends, and
each of these tests meets them all within a few commits. `ABREAST_TURN=3` chooses another turn, `ABREAST_TURN=all` runs all.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.client import BACKENDS

ROOT = Path(__file__).parents[2]


def others(items: Sequence[pytest.Item], turn: int) -> list[pytest.Item]:
    """Those of the tests marked `in_turn` whose backend has another turn."""
    places: dict[str, int] = {}
    found = []
    for item in items:
        backend = _backend(item)
        if item.get_closest_marker("in_turn") is None or backend is None:
            continue
        place = places.setdefault(item.nodeid.partition("::")[0], len(places))
        if backend != BACKENDS[(turn + place) % len(BACKENDS)]:
            found.append(item)
    return found


def turn() -> int | None:
    """The number of the present commit's turn; None if all backends are asked for."""
    if asked := os.environ.get("ABREAST_TURN"):
        return None if asked == "all" else int(asked)
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return int(done.stdout[:8], 16) if done.returncode == 0 else 0


def _backend(item: pytest.Item) -> str | None:
    """The backend that the test runs on; None if it has none."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("backend") if callspec is not None else None
