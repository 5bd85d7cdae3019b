"""A pytest plugin for a process that runs Keras's own tests: places every model, counts the steps of each test, keeps outcomes.

    KERAS_BACKEND=jax python -m pytest -p tests.keras_own.plugin --placed 4 --outcomes FILE PATHS

Without `--placed` the tests run with plain Keras. Tests that FILE already names are left out, so that a run which a crash ended
can be continued. Not here: which tests run (`runs.py`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

_STACK = ExitStack()
_OUTCOMES = pytest.StashKey["Outcomes"]()


class Planted(BaseException):
    """The error of a planted step: no test that expects an error takes it for that one."""


class Outcomes:
    """Writes a line when a test begins and another when it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_steps = 0
        self._now: dict[str, Any] = {}

    def known(self) -> set[str]:
        if not self.path.exists():
            return set()
        return {json.loads(line)["test"] for line in self.path.read_text().splitlines()}

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write({"test": _name(report.nodeid), "outcome": "failed", "reason": _reason(report)})

    @pytest.hookimpl
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.num_steps = 0
        self._now = {"test": _name(nodeid), "outcome": "passed", "seconds": 0.0}
        self._write({"test": _name(nodeid), "outcome": "began"})

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._now["seconds"] = round(self._now["seconds"] + report.duration, 3)
        if report.outcome != "passed" and self._now["outcome"] != "failed":
            self._now |= {"outcome": report.outcome, "reason": _reason(report), "details": report.longreprtext[-3000:]}

    @pytest.hookimpl
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write(self._now | {"steps": self.num_steps})

    def _write(self, line: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("keras_own")
    group.addoption("--placed", type=int, default=0, help="simulated devices; 0 is plain Keras")
    group.addoption("--outcomes", type=Path, required=True, help="file of JSON lines")
    group.addoption("--planted", action="store_true", help="let every placed step fail, to see which tests run one")


def pytest_configure(config: pytest.Config) -> None:
    _stand_in_for_conftest()
    outcomes = Outcomes(config.option.outcomes)
    config.stash[_OUTCOMES] = outcomes
    config.pluginmanager.register(outcomes)
    if config.option.placed:
        _place(config.option.placed, outcomes, config.option.planted)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known = config.stash[_OUTCOMES].known()
    items[:] = [item for item in items if _name(item.nodeid) not in known]


def pytest_unconfigure() -> None:
    _STACK.close()


def _stand_in_for_conftest() -> None:
    """Do the work of Keras's `conftest.py`, which is not in the wheel."""
    os.environ["JAX_DEFAULT_DTYPE_BITS"] = "32"
    with contextlib.suppress(ImportError):
        importlib.import_module("torch")  # before TensorFlow, or it may crash
    conftest: Any = ModuleType("conftest")
    conftest.skip_if_backend = lambda name, reason: pytest.mark.skipif(
        os.environ["KERAS_BACKEND"] == name, reason=reason
    )
    sys.modules["conftest"] = conftest


def _place(num_devices: int, outcomes: Outcomes, planted: bool) -> None:
    import keras

    from abreast import keras_fit, parallel

    parallel.use_cpu_devices(num_devices)
    placement = _STACK.enter_context(parallel.default_placement(num_devices))
    # Keras's tests of trainers mix its trainer into a layer, without `keras.Model`.
    keras_fit.lead(next(base for base in keras.Model.__mro__ if base.__name__.endswith("Trainer")))
    backend: Any = placement.backend
    backend.step_function = _counting(backend.step_function, outcomes, planted)


def _counting(step_function: Callable[..., Any], outcomes: Outcomes, planted: bool) -> Callable[..., Any]:
    @functools.wraps(step_function)
    def counting(*arguments: Any) -> Any:
        step = step_function(*arguments)

        def counted(*given: Any) -> Any:
            outcomes.num_steps += 1
            if planted:
                raise Planted
            return step.for_keras(*given)

        return replace(step, for_keras=counted)

    return counting


def _name(test: str) -> str:
    """A test id that is the same in every process: scikit-learn's names of checks contain addresses."""
    return re.sub("0x[0-9a-f]+", "0x", test)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """For an error its kind and message (the last one's in a chain), for a skip its reason."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    lines = report.longreprtext.splitlines()
    errors = [line[1:].strip() for line, before in zip(lines, ["", *lines], strict=False) if _opens_error(line, before)]
    return (errors or [report.longreprtext.strip() or report.outcome])[-1][:300]


def _opens_error(line: str, before: str) -> bool:
    return line.startswith("E ") and not before.startswith("E ")
