"""Processes that run Keras's own tests with `plugin.py`, and the outcome of each test.

The tests run from a copy named `keras_tests`: code in `keras.src` counts as Keras's own, and these classes are a user's.
A test that ends its process, or takes too long, counts as "died"; another process runs the rest. Imports no framework.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.harness.client import ENVIRONMENT, ROOT

NUM_DEVICES = 4
TEST_SECONDS = 240  # each
PACKAGES = ("trainers", "callbacks", "saving", "optimizers", "models", "layers/normalization", "distillation")
# Files elsewhere in which models are fit, evaluated or asked to predict.
FILES = (
    "backend/common/remat_test.py",
    "backend/jax/trainer_test.py",
    "layers/core/dense_test.py",
    "layers/core/embedding_test.py",
    "layers/core/einsum_dense_test.py",
    "layers/layer_test.py",
    "layers/merging/merging_test.py",
    "layers/regularization/activity_regularization_test.py",
    "layers/regularization/dropout_test.py",
    "layers/preprocessing/feature_space_test.py",
    "layers/preprocessing/pipeline_test.py",
    "layers/rnn/time_distributed_test.py",
    "legacy/saving/legacy_h5_format_test.py",
    "metrics/confusion_metrics_test.py",
    "metrics/iou_metrics_test.py",
    "metrics/reduction_metrics_test.py",
    "quantizers/gptq_test.py",
    "utils/jax_layer_test.py",
    "utils/rng_utils_test.py",
    "utils/torch_utils_test.py",
    "wrappers/sklearn_test.py",
)
EVERYTHING = (*PACKAGES, *FILES)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one test; `steps` counts the calls of our step functions."""

    test: str
    outcome: str  # passed, failed, skipped or died
    steps: int
    seconds: float
    reason: str

    @property
    def file(self) -> str:
        return self.test.partition("::")[0].removeprefix("keras_tests/")


def run(
    backend: str, targets: Sequence[str], outcomes: Path, *, placed: int = 0, options: Sequence[str] = ()
) -> dict[str, Outcome]:
    """Outcomes by test of `targets` in `keras/src`, kept in the file `outcomes`; a second call continues it."""
    folder = _copied_tests(outcomes.parent)
    paths = [str(folder / "keras_tests" / target) for target in targets]
    arguments = ["--placed", str(placed), "--outcomes", str(outcomes), *options, *paths]
    while not _ended(backend, arguments):
        if not _unfinished(outcomes):
            raise RuntimeError(f"pytest ended in no test; see {outcomes}.log")
        _close(outcomes)
    return {one.test: one for one in _read(outcomes) if one.outcome != "began"}


def _ended(backend: str, arguments: Sequence[str]) -> bool:
    """Whether a process finished its tests: no signal, and no error of pytest itself."""
    log = Path(arguments[3] + ".log")
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *_PYTEST, "--rootdir", str(log.parent), *arguments],
            cwd=ROOT,
            env=_environment(backend, log.parent),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait()
        finally:
            _kill_session(process.pid)
    return code in (0, 1, 5)


def _copied_tests(folder: Path) -> Path:
    """A folder with Keras's test files, and nothing else of Keras, in the package `keras_tests`."""
    keras = importlib.util.find_spec("keras")
    assert keras is not None and keras.origin is not None
    source, copy = Path(keras.origin).parent / "src", folder / "keras_tests"
    for file in source.rglob("*_test.py"):
        target = copy / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    return folder


_PYTEST = (
    *("-c", os.devnull, "-o", "python_files=*_test.py", "-o", "consider_namespace_packages=true"),
    *("-p", "tests.keras_own.plugin", "-p", "no:cacheprovider", "-p", "no:randomly"),
    *("--timeout", str(TEST_SECONDS), "--timeout-method", "thread", "-q", "-s", "--tb=short", "-W", "ignore"),
    "--continue-on-collection-errors",
)


def _environment(backend: str, home: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(home)])
    return {**os.environ, **ENVIRONMENT, "KERAS_BACKEND": backend, "KERAS_HOME": str(home), "PYTHONPATH": paths}


def _kill_session(session: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)


def _read(path: Path) -> list[Outcome]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [_outcome(line) for line in lines]


def _outcome(line: dict[str, Any]) -> Outcome:
    return Outcome(
        line["test"], line["outcome"], line.get("steps", 0), line.get("seconds", 0.0), line.get("reason", "")
    )


def _unfinished(path: Path) -> list[str]:
    """Tests that began and did not end."""
    outcomes = _read(path)
    ended = {one.test for one in outcomes if one.outcome != "began"}
    return [one.test for one in outcomes if one.test not in ended]


def _close(path: Path) -> None:
    with path.open("a") as file:
        for test in _unfinished(path):
            reason = f"ended its process, or ran {TEST_SECONDS} s"
            file.write(json.dumps({"test": test, "outcome": "died", "reason": reason}) + "\n")


def broken(plain: dict[str, Outcome], placed: dict[str, Outcome]) -> list[Outcome]:
    """The placed outcomes of the tests that pass with plain Keras but not placed."""
    passed = [test for test, one in plain.items() if one.outcome == "passed"]
    missing = Outcome("", "missing", 0, 0.0, "did not run")
    found = [placed.get(test, replace(missing, test=test)) for test in passed]
    return [one for one in found if one.outcome != "passed"]
