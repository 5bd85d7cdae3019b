"""A real browser for the tests of pages.

Without one they are skipped, unless `ABREAST_REQUIRE_BROWSER=1` makes that a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.harness.browser import NAMES, Browser, find


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = find()
    if program is None:
        reason = f"no browser: none of {', '.join(NAMES)} is installed, and ABREAST_BROWSER names none"
        if os.environ.get("ABREAST_REQUIRE_BROWSER") == "1":
            pytest.fail(f"{reason}; ABREAST_REQUIRE_BROWSER asks for one")
        pytest.skip(reason)
    browser = Browser(program)
    yield browser
    left = browser.close()
    assert not left, f"left behind: {left}"
