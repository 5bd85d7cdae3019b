"""Tests that take long: each commit runs a sixth of them, each on one backend, or an eighteenth of those without a backend.

The commit's hash and the place of the test's file among theirs choose the backend; its place among the tests without a backend
chooses the commits that run such a test. So every commit tests all backends, and within eighteen commits each of these tests
has met them all. `in_turn(2)` is for a test that half of the commits run, `in_turn(1)` for one that each runs, on one backend.
`ABREAST_TURN=3` chooses another turn, `ABREAST_TURN=all` runs all, and so does `make test-full`.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.harness.client import BACKENDS

ROOT = Path(__file__).parents[2]
TURNS = len(BACKENDS)
EVERY = 6


def others(items: Sequence[pytest.Item], turn: int) -> list[pytest.Item]:
    """Those of the tests marked `in_turn` that have another turn."""
    files: dict[str, int] = {}
    places: dict[int, dict[str, int]] = defaultdict(
        dict
    )  # by how rare tests are, so that no commit has all the rare ones
    without_backend = 0
    found = []
    for item in items:
        if (mark := item.get_closest_marker("in_turn")) is None:
            continue
        if (backend := _backend(item)) is not None:
            place = files.setdefault(item.nodeid.partition("::")[0], len(files))
            now = backend == BACKENDS[(turn + place) % TURNS]
        else:
            now = (turn + without_backend) % TURNS == 0
            without_backend += 1
        every = mark.args[0] if mark.args else EVERY
        place = places[every].setdefault(item.nodeid.partition("[")[0], len(places[every]))
        if not now or (turn // TURNS + place // TURNS) % every:
            found.append(item)
    return found


@cache
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
