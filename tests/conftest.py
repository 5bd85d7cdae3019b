"""The backends' workers and a folder for commands as fixtures, and the last lines of a session.

`ABREAST_REQUIRE_BACKENDS=jax,torch` makes a missing backend a failure instead of a skip; `ABREAST_REQUIRE_BROWSER=1` does the
same for the browser of the tests of pages. Without `-m "not full"`, each job runs on every number of devices.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.oracle import Contract, Ledger
from tests.harness.browser import NAMES, Browser, find
from tests.harness.client import BACKENDS, Workers
from tests.harness.folder import Folder
from tests.harness.in_turn import others, turn
from tests.harness.installed import skip_unless_installed

_LEDGERS: dict[str, Ledger] = {}
_SAID: list[str] = []  # by processes of `-n`


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what runs in the background with Ctrl-C ignored, and our scripts, which get it, would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("ABREAST_SECRET", secrets.token_hex(32))  # else jobs of tests would make one in the home
    # Most time on JAX went into compiling the same programs again, in this process or another.
    # Not where tests measure time: they mean that of a user, who compiles.
    if "not alone" in config.option.markexpr and not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="abreast-test-programs-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ |= {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_COMPILATION_CACHE_MAX_SIZE": str(2**30),  # with a limit, JAX locks the folder for each process
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "not full" in config.option.markexpr and (present := turn()) is not None:
        left_out = others(items, present)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(scope="session", params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in BACKENDS])
def backend(request: pytest.FixtureRequest) -> str:
    """The name of a backend that is installed."""
    name: str = request.param
    skip_unless_installed(name)
    return name


@pytest.fixture(scope="session")
def workers(backend: str) -> Iterator[Workers]:
    """Two processes with that backend: plain Keras, and abreast with four simulated devices."""
    workers = Workers.of(backend)
    yield workers
    left = workers.close()
    assert not left, f"left behind: {left}"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """An empty folder, in which commands run as a user runs them."""
    return Folder(tmp_path)


@pytest.fixture
def all_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts find every framework that is installed, and not only that of `KERAS_BACKEND`: see `tests/hiding`."""
    monkeypatch.setenv("HIDDEN_PACKAGES", "")


@pytest.fixture(scope="session")
def contract(workers: Workers, pytestconfig: pytest.Config) -> Contract:
    """Holds cases to plain Keras."""
    ledger = _LEDGERS.setdefault(workers.backend, Ledger())
    return Contract(workers, ledger, full="not full" not in pytestconfig.option.markexpr)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real browser without a window."""
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


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["said"] = _said()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """A process of `-n` has ended."""
    _SAID.extend(getattr(node, "workeroutput", {}).get("said", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in [*_SAID, *_said()]:
        terminalreporter.write_line(line)


def _said() -> list[str]:
    lines = []
    for name, ledger in _LEDGERS.items():
        lines.append(f"{name}: {ledger.num_comparisons} comparisons with plain Keras")
        for policy, (difference, where) in ledger.largest.items():
            lines.append(f"  {policy}: largest difference {difference:.1e} ({where})")
    return lines
